//! A small net as `net.cuh` takes it: packed for tensor cores, in the order of their lanes.

use super::arguments::{Pack, PackLayer, SearchLayer, SearchNet};
use compute::cuda::{Array, Slab, Stream};
use compute::net::{Layout, Linear};
use compute::{Error, Net, Result};

/// Layers, heads as one of them.
const LAYERS: usize = 5;
/// The widest that a layer may be, of both towers together.
const WIDEST: usize = 256;
/// The widest that the input may be.
const WIDEST_INPUT: usize = 512;

/// Where a small net's layers lie, packed.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    layer: [SearchLayer; LAYERS],
    from: [PackLayer; LAYERS],
    columns: Vec<u32>,
    layers: usize,
    /// Words of the weights, and biases.
    pub(super) words: usize,
    biases: usize,
    params: usize,
    /// Numbers between two rows of activations.
    pub(super) wide: usize,
    pub(super) outputs: usize,
    pub(super) actions: usize,
}

impl Shape {
    /// The shape of a net, where it is a small one: plain layers up to 256 wide behind each other, in one trunk or two
    /// towers that read the same, then a policy and a value.
    pub(super) fn of(net: &Net) -> Result<Option<Shape>> {
        let layout = Layout::new(net)?;
        let [policy, value] = net.heads.as_slice() else {
            return Err(Error::Invalid(format!("{} heads; a search needs a policy and a value", net.heads.len())));
        };
        let towers = match net.towers.as_slice() {
            [] => 1,
            [one, two] if one.heads == 1 && two.heads == 1 && one.layers.len() == two.layers.len() => 2,
            _ => return Ok(None),
        };
        let count = layout.linears.len() - 2;
        let plain = net.towers.iter().all(|tower| tower.recurrent.is_empty())
            && net.branches.iter().all(|branch| branch.recurrent.is_empty() && branch.layers.is_empty())
            && net.inputs.iter().all(|input| input.window == 1)
            && value.classes == 1
            && policy.classes < 32
            && count.is_multiple_of(towers)
            && (2..=LAYERS).contains(&(count / towers + 1))
            && layout.linears.iter().all(|linear| linear.norm.is_none())
            && layout.linears[0].inputs() <= WIDEST_INPUT;
        if !plain {
            return Ok(None);
        }
        let depth = count / towers;
        let (hidden, heads) = layout.linears.split_at(count);
        let levels: Vec<(&Linear, Option<&Linear>)> =
            (0..depth).map(|at| (&hidden[at], (towers == 2).then(|| &hidden[depth + at]))).collect();
        let alike = |(one, two): &(&Linear, Option<&Linear>)| {
            one.outputs + two.map_or(0, |two| two.outputs) <= WIDEST
                && two.is_none_or(|two| two.activation == one.activation)
        };
        let same_input =
            levels[0].1.is_none_or(|two| two.input == levels[0].0.input && two.columns == levels[0].0.columns);
        if !same_input || !levels.iter().all(alike) {
            return Ok(None);
        }
        let mut shape = Shape {
            layer: [SearchLayer::default(); LAYERS],
            from: [PackLayer::default(); LAYERS],
            columns: hidden[0].columns.iter().flat_map(|range| range.clone()).map(|column| column as u32).collect(),
            layers: depth + 1,
            words: 0,
            biases: 0,
            params: layout.params,
            wide: 0,
            outputs: (policy.classes + 1).next_multiple_of(8),
            actions: policy.classes,
        };
        for (at, (one, two)) in levels.iter().enumerate() {
            let outputs = one.outputs + two.map_or(0, |two| two.outputs);
            // Behind the first layer a tower reads what it wrote.
            let shift = if at == 0 { 0 } else { one.inputs() };
            shape.add(at, one, outputs.next_multiple_of(32), *two, shift, true);
        }
        let shift = if towers == 2 { heads[0].inputs() } else { 0 };
        shape.add(depth, &heads[0], shape.outputs, Some(&heads[1]), shift, false);
        Ok(Some(shape))
    }

    fn add(&mut self, at: usize, linear: &Linear, outputs: usize, second: Option<&Linear>, shift: usize, hidden: bool) {
        let reads = linear.inputs().max(second.map_or(0, |own| shift + own.inputs()));
        let inputs = reads.next_multiple_of(32);
        self.layer[at] = SearchLayer {
            packed: (self.words / 4) as u32,
            bias: self.biases as u32,
            steps: (inputs / 32) as u32,
            tiles: (outputs / 8) as u32,
            act: linear.activation as u32,
        };
        self.from[at] = PackLayer {
            weight: linear.weight as u32,
            bias: linear.bias as u32,
            stride: linear.input.width as u32,
            inputs: linear.inputs() as u32,
            outputs: linear.outputs as u32,
            second_weight: second.map_or(0, |own| own.weight as u32),
            second_bias: second.map_or(0, |own| own.bias as u32),
            second_stride: second.map_or(0, |own| own.input.width as u32),
            second_inputs: second.map_or(0, |own| own.inputs() as u32),
            second_shift: shift as u32,
            second: second.map_or(0, |own| own.outputs as u32),
        };
        self.words += inputs * outputs / 2;
        self.biases += outputs;
        // Eight more, so that the rows of a matrix lie in different banks.
        self.wide = self.wide.max(inputs + 8).max(if hidden { outputs + 8 } else { 0 });
    }

    /// Bytes of shared memory beside weights and trees, for so many rows: biases, activations, outputs, leaves.
    pub(super) fn shared(&self, rows: usize) -> usize {
        self.biases.next_multiple_of(4) * 4 + rows * (2 * 2 * self.wide + 4 * self.outputs + 8)
    }

    /// Bytes of its arrays.
    pub(super) fn bytes(&self) -> u64 {
        (self.words * 4 + self.biases * 4 + self.columns.len() * 4 + 3 * 256) as u64
    }

    /// How many biases there are.
    pub(super) fn biases(&self) -> usize {
        self.biases
    }

    /// Arrays for so many nets, and how those of the first are filled from parameters `[nets, params]`.
    pub(super) fn arrays(
        &self,
        slab: &mut Slab,
        stream: &Stream,
        params: &Array<f32>,
        nets: usize,
    ) -> Result<(SearchNet, Pack)> {
        if params.len() < nets * self.params {
            return Err(Error::Invalid(format!(
                "{} parameters; {nets} of these nets have {}",
                params.len(),
                nets * self.params
            )));
        }
        let packed = slab.array(nets * self.words)?;
        let biases = slab.array(nets * self.biases)?;
        let columns = slab.array(self.columns.len())?;
        columns.put(stream, &self.columns)?;
        let net = SearchNet {
            packed: packed.clone(),
            biases: biases.clone(),
            layers: self.layers as u32,
            wide: self.wide as u32,
            layer: self.layer,
        };
        let pack = Pack {
            params: params.clone(),
            columns,
            packed,
            biases,
            layers: self.layers as u32,
            layer: self.layer,
            from: self.from,
        };
        Ok((net, pack))
    }
}
