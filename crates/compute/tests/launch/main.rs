//! Another room's kernels: its own `.cu` file, its own images, launched alone and in a graph without an unchecked line.
//!
//! Fields that differ from the `.cu` file do not compile (`compute::arguments!`); what can only be seen with a card is
//! seen here.

use compute::cuda::{Array, Context, Grid, Image, Kernel, Module, Plain, Slab, Stream, gpus};
use std::sync::Arc;

static LAUNCH: Image = compute::image!("launch");

compute::arguments! {
    /// `y = a x + y`.
    struct Saxpy in "launch.cu" {
        x: Array<f32>,
        y: Array<f32>,
        a: f32,
    }
}

compute::arguments! {
    /// Adds to a number.
    struct Count in "launch.cu" {
        launches: Array<u32>,
        by: u32,
    }
}

/// The struct of an older or newer `launch.cu`.
mod wrong {
    use compute::cuda::Array;

    compute::arguments! {
        pub(super) struct Saxpy in "wrong.cuh" {
            x: Array<f32>,
            y: Array<f32>,
            a: f32,
            mask: Option<Array<f32>>,
        }
    }
}

/// A card's stream and memory, or none, aloud.
fn card() -> Option<(Arc<Context>, Stream, Slab)> {
    let opened = match gpus() {
        Ok(found) if !found.is_empty() => Context::open(0).map_err(|e| e.to_string()),
        _ => Err("no GPU".into()),
    };
    match opened {
        Ok(context) => {
            let (stream, slab) = (Stream::new(&context).unwrap(), context.slab(1 << 20).unwrap());
            Some((context, stream, slab))
        }
        Err(why) => {
            skip(&why);
            None
        }
    }
}

/// As xtask's `test.rs` reads it.
#[expect(clippy::print_stdout, reason = "this is how a skip is reported")]
fn skip(why: &str) {
    use std::io::Write;
    let log = std::env::var_os("FULLBORE_SKIP_LOG");
    match log.and_then(|path| std::fs::File::options().append(true).create(true).open(path).ok()) {
        Some(mut file) => file.write_all(format!("{why}\n").as_bytes()).unwrap(),
        None => println!("SKIP: {why}"),
    }
}

fn array<T: Plain>(slab: &mut Slab, stream: &Stream, from: &[T]) -> Array<T> {
    let made = slab.array(from.len()).unwrap();
    made.put(stream, from).unwrap();
    made
}

#[test]
fn a_room_launches_its_own_kernels_in_a_graph() {
    let Some((context, stream, mut slab)) = card() else { return };
    let module = Module::load(&context, &LAUNCH).unwrap();
    let saxpy: Kernel<Saxpy> = module.kernel("saxpy").unwrap();
    let count: Kernel<Count> = module.kernel("count").unwrap();
    let xs: Vec<f32> = (0..1000u16).map(f32::from).collect();
    let (x, y) = (array(&mut slab, &stream, &xs), array(&mut slab, &stream, &vec![0.5; 1000]));
    let launches = array(&mut slab, &stream, &[40u32]);
    let work = Saxpy { x: x.clone(), y: y.clone(), a: 2.0 };
    let counted = Count { launches: launches.clone(), by: 1 };
    saxpy.launch(&stream, Grid::row(y.len(), 256), &work).unwrap();
    let graph = stream
        .capture(|| {
            saxpy.launch(&stream, Grid::row(y.len(), 256), &work)?;
            count.launch(&stream, Grid::row(1, 1), &counted)
        })
        .unwrap();
    assert_eq!(graph.nodes(), 2);
    // The graph alone holds the memory of `x`, and the module.
    drop((work, counted, x, saxpy, count, module, slab));
    graph.launch(&stream).unwrap();
    graph.launch(&stream).unwrap();
    let expected: Vec<f32> = xs.iter().map(|x| 2.0 * x + (2.0 * x + (2.0 * x + 0.5))).collect();
    assert_eq!(y.get(&stream).unwrap(), expected);
    assert_eq!(launches.get(&stream).unwrap(), [42]);
}

/// Blocks that are to run at once do, and a grid that is too large for the card is an error instead of a kernel that
/// waits for ever.
#[test]
fn a_grid_runs_at_once_or_is_refused() {
    let Some((context, stream, mut slab)) = card() else { return };
    let saxpy: Kernel<Saxpy> = Module::load(&context, &LAUNCH).unwrap().kernel("saxpy").unwrap();
    let (x, y) = (array(&mut slab, &stream, &[1.0f32; 1000]), array(&mut slab, &stream, &[0.5; 1000]));
    let work = Saxpy { x, y: y.clone(), a: 2.0 };
    saxpy.launch_at_once(&stream, Grid::row(y.len(), 256), &work).unwrap();
    assert_eq!(y.get(&stream).unwrap(), [2.5; 1000]);
    let many = Grid { blocks: [context.gpu().multiprocessors * 64, 1, 1], ..Grid::row(y.len(), 256) };
    let why = saxpy.launch_at_once(&stream, many, &work).unwrap_err().to_string();
    assert!(why.contains("launch of"), "{why}");
    assert_eq!(y.get(&stream).unwrap(), [2.5; 1000]);
}

#[test]
fn wrong_arguments_are_refused() {
    let Some((context, stream, mut slab)) = card() else { return };
    let module = Module::load(&context, &LAUNCH).unwrap();
    let refused = |why: String, part: &str| assert!(why.contains(part), "{why}");
    // A struct of another name, a struct of another size, a kernel that is not there.
    refused(module.kernel::<Count>("saxpy").err().unwrap().to_string(), "_Z5saxpy5Count");
    refused(module.kernel::<wrong::Saxpy>("saxpy").err().unwrap().to_string(), "takes arguments of [40] bytes");
    refused(module.kernel::<Saxpy>("absent").err().unwrap().to_string(), "_Z6absent5Saxpy");
    let some: Array<f32> = slab.array(10).unwrap();
    refused(some.part(4, 7).err().unwrap().to_string(), "array of 10");
    refused(some.put(&stream, &[0.0; 11]).unwrap_err().to_string(), "11 elements");
    refused(some.copy_from(&stream, &some.part(0, 9).unwrap()).unwrap_err().to_string(), "9 elements");
    // More threads than a block can have, and more memory than there is: the driver's word.
    let saxpy: Kernel<Saxpy> = module.kernel("saxpy").unwrap();
    let work = Saxpy { x: some.clone(), y: some.clone(), a: 1.0 };
    refused(saxpy.launch(&stream, Grid::row(10, 4096), &work).unwrap_err().to_string(), "launch of");
    assert!(slab.array::<f32>(usize::MAX).is_err());
    // Nothing of it has hurt the card.
    saxpy.launch(&stream, Grid::row(10, 32), &work).unwrap();
    stream.wait().unwrap();
}
