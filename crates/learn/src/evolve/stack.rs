//! A policy's net as individuals run it: a plain stack of layers.
//!
//! Parameters of a search are numbered layer by layer, of each layer the weights `[inputs, outputs]` and then the
//! biases `[outputs]`, without padding. An individual's weights lie in [`Line`]s of sixteen: for each input a row of
//! lines, then a row for the biases, padded with zeros; so the outputs of a layer are lanes and an input is one number
//! for all of them. A head of few outputs lies the other way round, a row of lines of inputs for each output and then
//! one line for the biases: its outputs would leave most lanes empty. In bf16 a word of a line is a pair of inputs, so
//! there are half as many rows. What a layout of `compute` has beside that (branches, towers, norms, recurrent layers)
//! is refused.

use super::bf16_simd;
use compute::net::{Activation, Layout};
use compute::population::Precision;
use compute::{Error, Net, Result};

/// Floats of a line.
pub(super) const LANES: usize = 16;

/// Outputs of a head whose inputs are lanes, at most.
pub(super) const FEW: usize = 4;

/// Sixteen floats on a border of their own.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
pub(super) struct Line(pub(super) [f32; LANES]);

pub(super) const ZEROS: Line = Line([0.0; LANES]);

/// A layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dense {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) activation: Activation,
    /// Its first parameter.
    pub(super) first: usize,
    /// Words of a row of inputs: numbers, or pairs of them.
    pub(super) words: usize,
    /// Lines of a row of outputs.
    pub(super) lines: usize,
    /// Its first line.
    pub(super) at: usize,
    /// Whether it is the last, whose outputs are f32.
    pub(super) is_last: bool,
    /// Whether its inputs are lanes: the last layer alone, because the padding of what it reads must be zero.
    pub(super) turned: bool,
}

impl Dense {
    /// Lines of its weights and biases.
    pub(super) fn weights(&self) -> usize {
        if self.turned { self.outputs * self.words.div_ceil(LANES) + 1 } else { (self.words + 1) * self.lines }
    }
}

/// Layers, one behind the other.
#[derive(Debug, Clone)]
pub(super) struct Stack {
    pub(super) layers: Vec<Dense>,
    pub(super) parameters: usize,
    /// Lines of an individual's weights.
    pub(super) lines: usize,
    /// Whether they are pairs in bf16.
    pub(super) in_pairs: bool,
    /// In pairs, the place of the first layer's inputs that none has, so that an account's own numbers begin a pair.
    gap: usize,
    widest: usize,
    /// `[parameters]` the place of each in a row of the arena.
    places: Vec<u32>,
    /// Numbers of a row of the arena.
    row: usize,
}

impl Stack {
    /// The layers of a net that computes in bf16 or in f32, or what of it is none.
    pub(super) fn new(net: &Net, precision: Precision) -> Result<Stack> {
        let layout = Layout::new(net)?;
        let plain = net.towers.is_empty()
            && net.heads.len() == 1
            && layout.recurrents.is_empty()
            && net.branches.iter().all(|branch| branch.layers.is_empty())
            && net.inputs.iter().all(|input| input.window == 1)
            && layout.linears.iter().all(|layer| layer.plain());
        if !plain {
            return Err(Error::Invalid(format!("`{net}` is not a plain stack of layers with one head")));
        }
        let in_pairs = precision == Precision::Bf16;
        let shown = net.inputs.iter().take_while(|input| !input.dense).map(|input| input.features).sum::<usize>();
        let has_gap = in_pairs && shown % 2 == 1 && net.inputs.iter().any(|input| input.dense);
        let gap = if has_gap { shown } else { usize::MAX };
        let (layers, places, row) = (Vec::new(), Vec::new(), layout.params);
        let mut stack = Stack { layers, parameters: 0, lines: 0, in_pairs, gap, widest: 1, places, row };
        for (number, layer) in layout.linears.iter().enumerate() {
            let (inputs, outputs) = (layer.inputs(), layer.outputs);
            let is_last = number + 1 == layout.linears.len();
            let (turned, activation) = (is_last && outputs <= FEW, layer.activation);
            let (first, at, lines) = (stack.parameters, stack.lines, outputs.div_ceil(LANES));
            let places = inputs + usize::from(number == 0 && has_gap);
            let words = if in_pairs { places.div_ceil(2) } else { places };
            let dense = Dense { inputs, outputs, activation, first, words, lines, at, is_last, turned };
            stack.layers.push(dense);
            for column in layer.columns.iter().cloned().flatten() {
                let place = |output: usize| (layer.weight + output * layer.input.width + column) as u32;
                stack.places.extend((0..outputs).map(place));
            }
            stack.places.extend((0..outputs).map(|output| (layer.bias + output) as u32));
            stack.parameters += (inputs + 1) * outputs;
            stack.lines += dense.weights();
            stack.widest = stack.widest.max(lines).max(words.div_ceil(LANES));
        }
        Ok(stack)
    }

    /// Numbers that a row of input has.
    #[cfg(test)]
    pub(super) fn inputs(&self) -> usize {
        self.layers[0].inputs
    }

    /// Words of a row of input.
    pub(super) fn words(&self) -> usize {
        self.layers[0].words
    }

    /// The place of a number of the input among the numbers of its words.
    pub(super) fn place(&self, input: usize) -> usize {
        input + usize::from(input >= self.gap)
    }

    /// Outputs of the head.
    pub(super) fn outputs(&self) -> usize {
        self.layers[self.layers.len() - 1].outputs
    }

    /// `[layers]` inputs and outputs.
    pub(super) fn shapes(&self) -> Vec<[usize; 2]> {
        self.layers.iter().map(|layer| [layer.inputs, layer.outputs]).collect()
    }

    /// Lines of the widest layer or input.
    pub(super) fn widest(&self) -> usize {
        self.widest
    }

    /// Parameters of a search from a row of the arena.
    pub(super) fn gather(&self, row: &[f32]) -> Vec<f32> {
        self.places.iter().map(|at| row[*at as usize]).collect()
    }

    /// The row of the arena of such parameters.
    pub(super) fn scatter(&self, x: &[f32]) -> Vec<f32> {
        let mut row = vec![0.0; self.row];
        self.places.iter().zip(x).for_each(|(at, x)| row[*at as usize] = *x);
        row
    }

    /// Lays an individual's parameters into its lines, whose padding is zero and stays so.
    pub(super) fn lay(&self, x: &[f32], weights: &mut [Line]) {
        for layer in &self.layers {
            let own = &x[layer.first..][..(layer.inputs + 1) * layer.outputs];
            let lines = &mut weights[layer.at..][..layer.weights()];
            if self.in_pairs {
                let gap = if layer.at == 0 { self.gap } else { usize::MAX };
                bf16_simd::lay(layer, own, gap, lines);
                continue;
            }
            if layer.turned {
                let each = layer.inputs.div_ceil(LANES);
                let (lines, bias) = lines.split_at_mut(layer.outputs * each);
                let (own, biases) = own.split_at(layer.inputs * layer.outputs);
                for (k, own) in own.chunks_exact(layer.outputs).enumerate() {
                    own.iter().enumerate().for_each(|(o, x)| lines[o * each + k / LANES].0[k % LANES] = *x);
                }
                bias[0].0[..layer.outputs].copy_from_slice(biases);
                continue;
            }
            let rows = lines.chunks_exact_mut(layer.lines);
            for (own, row) in own.chunks_exact(layer.outputs).zip(rows) {
                for (own, line) in own.chunks(LANES).zip(row) {
                    match <&[f32; LANES]>::try_from(own) {
                        Ok(whole) => line.0 = *whole,
                        Err(_) => line.0[..own.len()].copy_from_slice(own),
                    }
                }
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::stack_simd::{Pass, Scratch, forward, words};
    use super::*;
    use compute::nets::{Forward, Rows};
    use compute::{Budget, Choice, Opened, Tables};

    /// Puts rows of inputs into words, rows side by side.
    pub(in super::super) fn put_inputs(stack: &Stack, given: &[f32], to: &mut [Line]) {
        let (wide, to) = (stack.inputs(), words(to));
        let rows = given.len() / wide;
        to.fill(0);
        for (row, own) in given.chunks_exact(wide).enumerate() {
            for (k, x) in own.iter().enumerate() {
                let place = stack.place(k);
                match stack.in_pairs {
                    true => to[place / 2 * rows + row] |= compute::bf16::round(*x).to_bits() >> (16 - place % 2 * 16),
                    false => to[place * rows + row] = x.to_bits(),
                }
            }
        }
    }

    /// The lanes compute what any other pass computes, for layers of odd and even widths and any number of rows.
    #[test]
    fn individuals_run_the_net_as_compute_does() {
        let mut random = random::SplitMix::new(3);
        let opened = Opened::new(Choice::Cpu, 1).unwrap().0;
        let tables = Tables::new(&opened, Budget::default(), &[], &[]).unwrap();
        for (text, precision) in [
            "a:dense18 / 64t-64t / policy:3",
            "a:dense5 / 7-33t / policy:2",
            "a:dense40 / 100 / policy:3",
            "a:dense9 / 4-20t / policy:5",
            "a:dense9 / 50t-10t / policy:1",
            "a:dense7 / policy:3",
            "a:dense64 / 80-64t / policy:20",
        ]
        .into_iter()
        .flat_map(|text| [(text, Precision::F32), (text, Precision::Bf16)])
        {
            let net: Net = text.parse().unwrap();
            let stack = Stack::new(&net, precision).unwrap();
            let row = compute::net::init(&Layout::new(&net).unwrap(), 5, 1);
            let x = stack.gather(&row);
            assert_eq!((x.len(), stack.scatter(&x)), (stack.parameters, row.clone()), "{text}");
            let mut weights = vec![ZEROS; stack.lines];
            stack.lay(&x, &mut weights);
            let wide = stack.inputs();
            for rows in [1, 3, 4, 9] {
                let given: Vec<f32> = (0..rows * wide).map(|_| random.unit() as f32 * 4.0 - 2.0).collect();
                let mut values = [[vec![ZEROS; rows * stack.widest()], vec![ZEROS; rows * stack.widest()]]];
                put_inputs(&stack, &given, &mut values[0][0]);
                let (weights, mut found) = ([weights.clone()], vec![0.0; stack.outputs() * rows]);
                let scratch = &mut Scratch::new();
                forward(
                    &stack,
                    &mut Pass {
                        weights: &weights,
                        shared: None,
                        values: &mut values,
                        scratch,
                        tiles: None,
                        out: &mut found,
                        rows,
                    },
                );
                let mut pass = Forward::new(&net, precision, rows).unwrap();
                let mut out = vec![0.0; rows * stack.outputs()];
                let input = Rows { tables: &tables, scales: &[], ids: &[], extras: &given };
                pass.with(&row).unwrap().run(input, &mut out).unwrap();
                // In bf16 a tangent can be rounded the other way.
                let near = if precision == Precision::Bf16 { 8e-3 } else { 2e-5 };
                for (row, wanted) in out.chunks_exact(stack.outputs()).enumerate() {
                    for (o, wanted) in wanted.iter().enumerate() {
                        let found = found[o * rows + row];
                        assert!((wanted - found).abs() < near, "{text}, {rows} rows: {wanted} and {found}");
                    }
                }
            }
        }
        for refused in ["a:dense4 / 8 | 8 / policy:3 | value:1", "a:dense4 / 8n / policy:3"] {
            assert!(refused.parse().is_ok_and(|net: Net| Stack::new(&net, Precision::F32).is_err()), "{refused}");
        }
    }

    /// Where an account's own numbers would begin in the middle of a pair, a place is left out before them.
    #[test]
    fn an_accounts_own_numbers_begin_a_pair() {
        let net: Net = "row:3 + account:dense8 / 16t / policy:3".parse().unwrap();
        let [one, two] = [Precision::F32, Precision::Bf16].map(|precision| Stack::new(&net, precision).unwrap());
        assert_eq!((one.words(), two.words()), (11, 6));
        assert_eq!([0, 2, 3, 10].map(|input| one.place(input)), [0, 2, 3, 10]);
        assert_eq!([0, 2, 3, 10].map(|input| two.place(input)), [0, 2, 4, 11]);
        let x: Vec<f32> = (0..two.parameters).map(|i| i as f32).collect();
        let mut weights = vec![ZEROS; two.lines];
        two.lay(&x, &mut weights);
        // Rows of 16 outputs: the third input has nobody beside it, the fourth and the fifth are a pair.
        let rounded = |i: usize| compute::bf16::round(i as f32).to_bits();
        for o in 0..16 {
            assert_eq!(weights[1].0[o].to_bits(), rounded(32 + o) >> 16);
            assert_eq!(weights[2].0[o].to_bits(), rounded(48 + o) >> 16 | rounded(64 + o));
            assert_eq!(weights[6].0[o], (11 * 16 + o) as f32, "biases are f32");
        }
    }
}
