//! The pass of the nets of a few individuals: outputs in lanes of sixteen, a few rows at a time in registers.
//!
//! A block is some rows and some lines of outputs: its sums stay in registers while it goes once through the weights,
//! and an input of a row is one word for all lanes: a number in f32, or a pair of numbers in bf16 ([`Format`]). Sums
//! run over the words in order from the bias on; of one line alone there are four such sums (words 0, 4, 8, … and so
//! on), added at the end, so that they do not wait for each other. A head of few outputs has its inputs in lanes:
//! sixteen sums of each output, added up at the end, and then the bias.
//!
//! Layers run one behind the other for all individuals, so that the tangents of a block ([`Pending`]) are computed
//! while the products of the next block, of another individual, keep the multipliers busy.
//!
//! Compiled for AVX-512, for AVX2 and for everything else; which one runs is decided when it is called.

#![expect(unsafe_code, reason = "intrinsics, called only behind the detection of their features")]
#![expect(clippy::needless_range_loop, reason = "several arrays at once, without closures")]

use super::bf16_simd;
use super::format_simd::{Format, activate_rows};
use super::lanes_simd::{Lanes, Plain};
use super::stack::{Dense, LANES, Line, Stack, ZEROS};
#[cfg(target_arch = "x86_64")]
use super::tiles_simd::TileMemory;
#[cfg(target_arch = "x86_64")]
use super::wide_simd as wide;
use compute::net::Activation;

/// What a pass reads and writes, of each individual.
pub(super) struct Pass<'a> {
    /// `[individuals]` weights, as [`Stack::lay`] lays them.
    pub(super) weights: &'a [Vec<Line>],
    /// Inputs that individuals share; without, `values[..][0]` are all inputs, `[words, rows]` without padding.
    pub(super) shared: Option<Shared<'a>>,
    /// `[individuals]` memory.
    pub(super) values: &'a mut [[Vec<Line>; 2]],
    /// Memory for blocks.
    pub(super) scratch: &'a mut Scratch,
    /// The tile registers of the thread, where it holds them.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "other processors have none"))]
    pub(super) tiles: Option<&'a Tiles>,
    /// `[outputs, individuals, rows]`
    pub(super) out: &'a mut [f32],
    pub(super) rows: usize,
}

/// Inputs of which individuals have some words of their own.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    /// `[words, rows]`; of words that are each individual's own anything.
    pub(super) words: &'a [u32],
    /// `[own words, apart]` those of rows of all individuals, behind each other.
    pub(super) own: &'a [u32],
    pub(super) apart: usize,
    /// The first word that is each individual's own, and how many are.
    pub(super) first: usize,
    pub(super) count: usize,
}

impl Shared<'_> {
    /// Puts an individual's inputs together, `[words, rows]`.
    fn assemble(self, individual: usize, rows: usize, to: &mut [u32]) {
        to.iter_mut().zip(self.words).for_each(|(to, word)| *to = *word);
        let each = to.chunks_exact_mut(rows).skip(self.first).zip(self.own.chunks(self.apart)).take(self.count);
        each.for_each(|(to, own)| to.copy_from_slice(&own[individual * rows..][..rows]));
    }

    /// Whether there is a word for each row of so many individuals.
    fn fits(self, words: usize, individuals: usize, rows: usize) -> bool {
        self.words.len() >= words * rows
            && self.apart >= individuals * rows
            && self.own.len() >= self.count * self.apart
            && self.first + self.count <= words
    }
}

/// Runs the nets of individuals.
pub(super) fn forward(stack: &Stack, pass: &mut Pass<'_>) {
    let (rows, lines) = (pass.rows, pass.rows * stack.widest());
    assert!(
        pass.weights.len() >= pass.values.len()
            && pass.weights.iter().all(|own| own.len() >= stack.lines)
            && pass.values.iter().flatten().all(|own| own.len() >= lines)
            && pass.out.len() >= pass.values.len() * stack.outputs() * rows
            && pass.shared.is_none_or(|shared| shared.fits(stack.words(), pass.values.len(), rows)),
        "memory for a pass"
    );
    if stack.in_pairs {
        return bf16_simd::forward(stack, pass);
    }
    #[cfg(target_arch = "x86_64")]
    match wide::level() {
        // SAFETY: the features were detected.
        2 => return unsafe { wide::forward_avx512(stack, pass) },
        1 => return unsafe { wide::forward_avx2(stack, pass) },
        _ => {}
    }
    layers::<Plain>(stack, pass);
}

/// Lines as the floats that they are.
#[cfg(test)]
pub(super) fn floats(lines: &mut [Line]) -> &mut [f32] {
    // SAFETY: a line is sixteen floats without padding.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<f32>(), lines.len() * LANES) }
}

/// Lines as words of 32 bits.
pub(super) fn words(lines: &mut [Line]) -> &mut [u32] {
    // SAFETY: as above, and any bits are a word.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast::<u32>(), lines.len() * LANES) }
}

/// The same, to be read.
pub(super) fn as_words(lines: &[Line]) -> &[u32] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast::<u32>(), lines.len() * LANES) }
}

/// The sums of two blocks: of one that is computed, and of the one before.
type Sums = [[Line; SQUARE * SQUARE]; 2];

/// Tile registers that a thread holds.
#[cfg(target_arch = "x86_64")]
pub(super) type Tiles = compute::amx::Tiles;
/// Other processors have none.
#[cfg(not(target_arch = "x86_64"))]
pub(super) enum Tiles {}

/// Memory of a thread for blocks.
#[derive(Debug, Clone)]
pub(super) struct Scratch {
    sums: Sums,
    #[cfg(target_arch = "x86_64")]
    pub(super) tiles: TileMemory,
}

impl Scratch {
    pub(super) fn new() -> Scratch {
        Scratch {
            sums: [[ZEROS; SQUARE * SQUARE]; 2],
            #[cfg(target_arch = "x86_64")]
            tiles: TileMemory::new(),
        }
    }

    /// Takes the tile registers for passes of so many rows, until they are dropped; none where they are not used.
    pub(super) fn hold_tiles(&mut self, stack: &Stack, rows: usize) -> Option<Tiles> {
        #[cfg(target_arch = "x86_64")]
        return self.tiles.hold(stack, rows);
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (stack, rows);
            None
        }
    }
}

/// Sums of four rows and four lines whose tangents are still to be computed.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    individual: usize,
    /// Which of [`Sums`], and of the individual's values.
    sums: usize,
    values: usize,
    /// The first line of the first row's values, lines of a row, and the first line of the sums.
    first: usize,
    each: usize,
    line: usize,
}

/// Rows and lines of a block whose activation is left for later. It is activated row by row: tangents of four lines
/// wait less for each other than those of two.
pub(super) const SQUARE: usize = 4;

impl Pending {
    /// Activates a row.
    ///
    /// # Safety
    ///
    /// `values` are those that it names, and have room for it.
    #[inline(always)]
    unsafe fn activate<F: Format>(self, by: Activation, row: usize, sums: *const Line, values: *mut Line) {
        let mut x = [[F::Sums::splat(0.0); SQUARE]];
        // SAFETY: as above; there are sixteen lines of sums.
        unsafe {
            for v in 0..SQUARE {
                x[0][v] = F::Sums::load(&*sums.add(row * SQUARE + v));
            }
            activate_rows::<F, 1, SQUARE>(by, &mut x);
            F::put(x[0], values.add(self.first + row * self.each), self.line);
        }
    }

    /// Whether `values` are long enough.
    fn fits(self, values: &[Line]) -> bool {
        self.first + SQUARE * self.each <= values.len()
    }

    /// Activates all of them.
    #[inline(always)]
    fn activate_all<F: Format>(self, by: Activation, values: &mut [[Vec<Line>; 2]], sums: &Sums) {
        let values = &mut values[self.individual][self.values];
        assert!(self.fits(values), "memory of a block");
        for row in 0..SQUARE {
            // SAFETY: there is room.
            unsafe { self.activate::<F>(by, row, sums[self.sums].as_ptr(), values.as_mut_ptr()) };
        }
    }
}

#[inline(always)]
pub(super) fn layers<F: Format>(stack: &Stack, pass: &mut Pass<'_>) {
    let (rows, mut pending) = (pass.rows, None::<Pending>);
    for (number, layer) in stack.layers.iter().enumerate() {
        let in_squares = F::Sums::WIDE >= SQUARE && rows >= SQUARE && layer.lines >= SQUARE && !layer.is_last;
        let has_edges = !in_squares || !rows.is_multiple_of(SQUARE) || !layer.lines.is_multiple_of(SQUARE);
        if let (0, true, Some(shared)) = (number, has_edges, pass.shared) {
            // Only whole squares read inputs from two places.
            for (individual, values) in pass.values.iter_mut().enumerate() {
                shared.assemble(individual, rows, &mut words(&mut values[0])[..layer.words * rows]);
            }
        }
        // What is left of the layer before is computed meanwhile, unless it is about to be read.
        if let Some(left) = pending.take_if(|left| !in_squares || left.individual == 0) {
            left.activate_all::<F>(Activation::Tanh, pass.values, &pass.scratch.sums);
        }
        if layer.turned {
            F::heads(layer, number, pass);
            continue;
        }
        let mut whole = Place { row: 0, line: 0 };
        if in_squares {
            pending = F::squares(layer, number, pass, pending);
            whole = Place { row: rows / SQUARE * SQUARE, line: layer.lines / SQUARE * SQUARE };
        }
        if has_edges {
            for (weights, values) in pass.weights.iter().zip(&mut *pass.values) {
                edges::<F>(layer, number, &weights[layer.at..][..layer.weights()], values, (rows, whole));
            }
        }
    }
    let last = stack.layers[stack.layers.len() - 1];
    if !last.turned {
        let apart = pass.values.len() * rows;
        for (individual, values) in pass.values.iter().enumerate() {
            let y = &values[stack.layers.len() % 2];
            for o in 0..last.outputs {
                for row in 0..rows {
                    let place = o * apart + individual * rows + row;
                    pass.out[place] = y[row * last.lines + o / LANES].0[o % LANES];
                }
            }
        }
    }
}

/// Where inputs lie: word k of row r at `k × apart + r × row`.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) x: &'a [u32],
    pub(super) apart: usize,
    pub(super) row: usize,
}

/// The inputs of a layer: those of the first have rows side by side, those of others are rows in whole lines.
#[inline(always)]
pub(super) fn inputs_of<'a>(layer: &Dense, number: usize, x: &'a [Line], rows: usize) -> Inputs<'a> {
    let wide = layer.words.div_ceil(LANES) * LANES;
    let x = as_words(x);
    let (apart, row) = if number == 0 { (rows, 1) } else { (1, wide) };
    assert!(x.len() > (layer.words - 1) * apart + (rows - 1) * row, "inputs of all rows");
    Inputs { x, apart, row }
}

/// Where a block begins.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    line: usize,
}

// Loops below have no closures: one would be compiled without the instructions of its caller, and not be inlined.

/// What a layer of an individual has outside of blocks of four rows and four lines, which end at `whole`.
#[inline(always)]
fn edges<F: Format>(
    layer: &Dense,
    number: usize,
    weights: &[Line],
    values: &mut [Vec<Line>; 2],
    (rows, whole): (usize, Place),
) {
    let [a, b] = values;
    let (x, y) = if number.is_multiple_of(2) { (&*a, b) } else { (&*b, a) };
    let x = inputs_of(layer, number, x, rows);
    let mut row = 0;
    while row < rows {
        let four = rows - row >= SQUARE;
        let mut line = if row < whole.row { whole.line } else { 0 };
        while line < layer.lines {
            let at = Place { row, line };
            line += match (four, layer.lines - line) {
                (true, 1) => one_line::<F, 4>(layer, weights, x, y, at),
                (false, 1) => one_line::<F, 1>(layer, weights, x, y, at),
                (true, 4..) if F::Sums::WIDE >= 4 => block::<F, 4, 4>(layer, weights, x, y, at),
                (false, 4..) if F::Sums::WIDE >= 4 => block::<F, 1, 4>(layer, weights, x, y, at),
                (true, 2..) if F::Sums::WIDE >= 2 => block::<F, 4, 2>(layer, weights, x, y, at),
                (false, 2..) if F::Sums::WIDE >= 2 => block::<F, 1, 2>(layer, weights, x, y, at),
                (true, _) => block::<F, 4, 1>(layer, weights, x, y, at),
                (false, _) => block::<F, 1, 1>(layer, weights, x, y, at),
            };
        }
        row += if four { SQUARE } else { 1 };
    }
}

/// A layer of all individuals in blocks of four rows and four lines, as far as there are whole ones. A block leaves its
/// tangents to the next one, which computes them beside its own products; those of the last are given back.
#[inline(always)]
pub(super) fn squares<F: Format>(
    layer: &Dense,
    number: usize,
    pass: &mut Pass<'_>,
    pending: Option<Pending>,
) -> Option<Pending> {
    match (number, pass.shared) {
        (0, Some(shared)) => {
            assert!(shared.fits(layer.words, pass.values.len(), pass.rows), "inputs of all rows");
            squares_of::<F, true>(layer, number, pass, pending, shared)
        }
        _ => {
            let nothing = Shared { words: &[], own: &[], apart: 0, first: 0, count: 0 };
            squares_of::<F, false>(layer, number, pass, pending, nothing)
        }
    }
}

/// The same where inputs are shared, or not.
#[inline(always)]
fn squares_of<F: Format, const SHARED: bool>(
    layer: &Dense,
    number: usize,
    pass: &mut Pass<'_>,
    mut pending: Option<Pending>,
    shared: Shared<'_>,
) -> Option<Pending> {
    let (rows, words, lines) = (pass.rows, layer.words, layer.lines);
    let (from, to, each) = (number % 2, 1 - number % 2, layer.lines.div_ceil(F::PACKED));
    for individual in 0..pass.values.len() {
        let weights = &pass.weights[individual][layer.at..][..layer.weights()];
        assert!(weights.len() >= (words + 1) * lines, "weights of the layer");
        let Inputs { x, apart, row } = inputs_of(layer, number, &pass.values[individual][from], rows);
        let (inputs, w) = (x.as_ptr(), weights.as_ptr());
        let mut at = Place { row: 0, line: 0 };
        while at.row + SQUARE <= rows {
            let turn = pending.map_or(0, |before| 1 - before.sums);
            let mut sums = [[F::Sums::splat(0.0); SQUARE]; SQUARE];
            // SAFETY: weights and inputs of all rows are there, and so is room for the block before. What it writes is
            // not read here: it is outputs of the same layer, or another individual's.
            unsafe {
                let (mut w, mut k) = (w.add(at.line), 0usize);
                for v in 0..SQUARE {
                    let bias = F::Sums::load(&*w.add(words * lines + v));
                    for r in 0..SQUARE {
                        sums[r][v] = bias;
                    }
                }
                let (mut next, own) = match SHARED {
                    true => (shared.words.as_ptr().add(at.row), shared.own.as_ptr().add(individual * rows + at.row)),
                    false => (inputs.add(at.row * row), inputs),
                };
                macro_rules! word {
                    () => {
                        let place = k.wrapping_sub(shared.first);
                        let is_own = SHARED && place < shared.count;
                        multiply::<F>(w, if is_own { own.add(place * shared.apart) } else { next }, row, &mut sums);
                        (w, next, k) = (w.add(lines), next.add(apart), k + 1);
                    };
                }
                if let Some(before) = pending {
                    let target = &mut pass.values[before.individual][before.values];
                    assert!(before.fits(target), "memory of the block before");
                    let (target, tangents) = (target.as_mut_ptr(), pass.scratch.sums[1 - turn].as_ptr());
                    for row in 0..SQUARE {
                        for _ in 0..words / SQUARE {
                            word!();
                        }
                        before.activate::<F>(Activation::Tanh, row, tangents, target);
                    }
                }
                while k < words {
                    word!();
                }
            }
            let own = &mut pass.scratch.sums[turn];
            for r in 0..SQUARE {
                for v in 0..SQUARE {
                    sums[r][v].store(&mut own[r * SQUARE + v]);
                }
            }
            let block = Pending { individual, sums: turn, values: to, first: at.row * each, each, line: at.line };
            pending = match layer.activation {
                Activation::Tanh => Some(block),
                activation => {
                    block.activate_all::<F>(activation, pass.values, &pass.scratch.sums);
                    None
                }
            };
            at.line += SQUARE;
            if at.line + SQUARE > lines {
                at = Place { row: at.row + SQUARE, line: 0 };
            }
        }
    }
    pending
}

/// One word of four rows, `row` words apart, times its four lines of weights.
///
/// # Safety
///
/// All of them are there.
#[inline(always)]
unsafe fn multiply<F: Format>(w: *const Line, x: *const u32, row: usize, sums: &mut [[F::Sums; SQUARE]; SQUARE]) {
    let mut lines = [F::splat(0); SQUARE];
    for v in 0..SQUARE {
        // SAFETY: as above.
        lines[v] = F::load(unsafe { &*w.add(v) });
    }
    for r in 0..SQUARE {
        // SAFETY: as above.
        let input = F::splat(unsafe { *x.add(r * row) });
        for v in 0..SQUARE {
            sums[r][v] = F::add_products(sums[r][v], lines[v], input);
        }
    }
}

/// `R` rows of `V` lines; how many lines.
#[inline(always)]
fn block<F: Format, const R: usize, const V: usize>(
    layer: &Dense,
    weights: &[Line],
    x: Inputs<'_>,
    y: &mut [Line],
    at: Place,
) -> usize {
    let lines = layer.lines;
    let (own, bias) = weights.split_at(layer.words * lines);
    let mut sums = [[F::Sums::splat(0.0); V]; R];
    for v in 0..V {
        let bias = F::Sums::load(&bias[at.line + v]);
        for r in 0..R {
            sums[r][v] = bias;
        }
    }
    for (k, row) in own.chunks_exact(lines).enumerate() {
        let row = &row[at.line..at.line + V];
        let mut w = [F::splat(0); V];
        for v in 0..V {
            w[v] = F::load(&row[v]);
        }
        for r in 0..R {
            let input = F::splat(x.x[k * x.apart + (at.row + r) * x.row]);
            for v in 0..V {
                sums[r][v] = F::add_products(sums[r][v], w[v], input);
            }
        }
    }
    finish::<F, R, V>(layer, sums, y, at);
    V
}

/// `R` rows of one line, in four sums each; one line.
#[inline(always)]
fn one_line<F: Format, const R: usize>(
    layer: &Dense,
    weights: &[Line],
    x: Inputs<'_>,
    y: &mut [Line],
    at: Place,
) -> usize {
    let lines = layer.lines;
    let mut first = [0; R];
    for r in 0..R {
        first[r] = (at.row + r) * x.row;
    }
    let (own, bias) = weights.split_at(layer.words * lines);
    let mut sums = [[F::Sums::splat(0.0); 4]; R];
    let bias = F::Sums::load(&bias[at.line]);
    for r in 0..R {
        sums[r][0] = bias;
    }
    let whole = layer.words / 4;
    for (four, w) in own.chunks_exact(4 * lines).enumerate() {
        for part in 0..4 {
            let w = F::load(&w[part * lines + at.line]);
            for r in 0..R {
                let input = F::splat(x.x[first[r] + (4 * four + part) * x.apart]);
                sums[r][part] = F::add_products(sums[r][part], w, input);
            }
        }
    }
    for k in 4 * whole..layer.words {
        let w = F::load(&own[k * lines + at.line]);
        for r in 0..R {
            let input = F::splat(x.x[first[r] + k * x.apart]);
            sums[r][k % 4] = F::add_products(sums[r][k % 4], w, input);
        }
    }
    let mut all = [[F::Sums::splat(0.0); 1]; R];
    for r in 0..R {
        let [a, b, c, d] = sums[r];
        all[r] = [a.add(b).add(c.add(d))];
    }
    finish::<F, R, 1>(layer, all, y, at);
    1
}

/// Activates the sums of a block and writes them; those of the last layer stay sums.
#[inline(always)]
fn finish<F: Format, const R: usize, const V: usize>(
    layer: &Dense,
    mut sums: [[F::Sums; V]; R],
    y: &mut [Line],
    at: Place,
) {
    activate_rows::<F, R, V>(layer.activation, &mut sums);
    let each = if layer.is_last { layer.lines } else { layer.lines.div_ceil(F::PACKED) };
    assert!((at.row + R) * each <= y.len() && at.line + V <= layer.lines, "memory of a block");
    for r in 0..R {
        if layer.is_last {
            for v in 0..V {
                sums[r][v].store(&mut y[(at.row + r) * each + at.line + v]);
            }
        } else {
            // SAFETY: there is room.
            unsafe { F::put(sums[r], y.as_mut_ptr().add((at.row + r) * each), at.line) };
        }
    }
}
