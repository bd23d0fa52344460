//! How fast a card is, measured: what every share of a limit is divided by. On random numbers; zeros would be faster
//! than data.

use super::blaslt::{Addresses, Epilogue, Matrix, Numbers, Product};
use super::calls::FillArgs;
use super::context::{Context, lock_driver};
use super::graph::{Event, Stream};
use super::kernels;
use super::memory::Slice;
use super::module::{Kernel, Module};
use crate::error::Result;
use std::sync::Arc;
use std::time::Instant;

/// Measured rates of a card.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Rates {
    /// Copy within its memory, bytes read plus bytes written, GB/s.
    pub device_copy_gb_per_s: f64,
    /// From ordinary host memory, GB/s.
    pub host_to_device_gb_per_s: f64,
    /// To ordinary host memory, GB/s.
    pub device_to_host_gb_per_s: f64,
    /// Matrix product by cuBLASLt in f32, TFLOP/s; none without the library.
    pub f32_tflops: Option<f64>,
    /// The same in TF32.
    pub tf32_tflops: Option<f64>,
    /// The same in bf16 with f32 sums.
    pub bf16_tflops: Option<f64>,
    /// From one launch of an empty kernel to the next, µs.
    pub launch_us: f64,
    /// From one node of a graph to the next, µs.
    pub graph_node_us: f64,
}

/// Measures a card; about a second. `quick` takes smaller copies and products.
pub fn rates(context: &Arc<Context>, quick: bool) -> Result<Rates> {
    let _lock = lock_driver();
    let stream = Stream::new(context)?;
    let size = if quick { 4096 } else { 8192 };
    let bytes = if quick { 64 << 20 } else { 512 << 20 };
    let mut slab = context.slab(3 * bytes as u64 + (64 << 20))?;
    let (one, two, three): (Slice<u8>, Slice<u8>, Slice<u8>) = (slab.cut(bytes)?, slab.cut(bytes)?, slab.cut(bytes)?);
    let workspace: Slice<u8> = slab.cut(32 << 20)?;
    let counter: Slice<u32> = slab.cut(1)?;
    let module = Module::load(context, &kernels::POPULATION)?;
    let (f32s, bf16s) = (module.typed("fill_random_f32")?, module.typed("fill_random_bf16")?);
    let fill = |kernel: &Kernel<FillArgs>, to: &Slice<u8>, size: usize| {
        let args = FillArgs { out: to.address(), n: to.len() / size, seed: 7 };
        // SAFETY: as many numbers as the slice holds.
        unsafe { kernel.send(&stream, [1024, 1, 1], 256, 0, &args) }
    };
    fill(&f32s, &one, 4)?;
    fill(&f32s, &two, 4)?;
    let copy = best(&stream, 4, || stream.copy(&three, &one))?;

    let mut host = vec![0u8; bytes / 4];
    host.iter_mut().enumerate().for_each(|(i, b)| *b = (i * 31) as u8);
    let part = three.part(0, host.len());
    let mut to = f64::INFINITY;
    let mut back = f64::INFINITY;
    for _ in 0..3 {
        let start = Instant::now();
        stream.put(&part, &host)?;
        to = to.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        let got = stream.get(&part)?;
        back = back.min(start.elapsed().as_secs_f64());
        drop(got);
    }

    let product = |numbers: Numbers, tf32: bool, size: u64| -> Result<Option<f64>> {
        let Ok(library) = context.blaslt() else { return Ok(None) };
        let matrix = Matrix { rows: size, columns: size, stride: size, member: size * size, numbers };
        let product = Product {
            left: matrix,
            left_transposed: false,
            right: matrix,
            right_transposed: true,
            out: matrix,
            epilogue: Epilogue::None,
            bias_member: 0,
            tf32,
            aligned: 256,
        };
        let Some(plan) = library.plans(&product, 1, workspace.len(), 1)?.into_iter().next() else { return Ok(None) };
        let (left, right, out) = (one.address(), two.address(), three.address());
        let at = Addresses { left, right, out, bias: 0, accumulate: false };
        let space = (workspace.address(), workspace.len());
        // SAFETY: each of the three slices holds a matrix of that size.
        let ms = best(&stream, 5, || unsafe { library.run(&plan, 1, &at, space, &stream) })?;
        Ok(Some(2.0 * (size as f64).powi(3) / ms / 1e9))
    };
    let f32_tflops = product(Numbers::F32, false, size / 2)?;
    let tf32_tflops = product(Numbers::F32, true, size)?;
    fill(&bf16s, &one, 2)?;
    fill(&bf16s, &two, 2)?;
    let bf16_tflops = product(Numbers::Bf16, false, size)?;

    let tick = module.function("tick")?;
    stream.fill(&counter, 0)?;
    // SAFETY: one number.
    let ticks = |n: usize| {
        (0..n).try_for_each(|_| unsafe { tick.launch(&stream, [1, 1, 1], [1, 1, 1], 0, &[(&counter).into()]) })
    };
    ticks(10)?;
    stream.wait()?;
    let start = Instant::now();
    ticks(1000)?;
    stream.wait()?;
    let launch_us = start.elapsed().as_secs_f64() * 1e3;
    let graph = stream.capture(|| ticks(1000))?;
    graph.launch(&stream)?;
    stream.wait()?;
    let start = Instant::now();
    graph.launch(&stream)?;
    stream.wait()?;
    let graph_node_us = start.elapsed().as_secs_f64() * 1e3;
    Ok(Rates {
        device_copy_gb_per_s: 2.0 * bytes as f64 / copy / 1e6,
        host_to_device_gb_per_s: host.len() as f64 / to / 1e9,
        device_to_host_gb_per_s: host.len() as f64 / back / 1e9,
        f32_tflops,
        tf32_tflops,
        bf16_tflops,
        launch_us,
        graph_node_us,
    })
}

/// The least milliseconds of some work on a stream, after a first time that does not count.
fn best(stream: &Stream, times: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let (start, end) = (Event::new(stream.context(), true)?, Event::new(stream.context(), true)?);
    work()?;
    let mut least = f64::INFINITY;
    for _ in 0..times {
        start.record(stream)?;
        work()?;
        end.record(stream)?;
        least = least.min(end.since(&start)?);
    }
    Ok(least)
}
