//! What a leaf is worth, and which actions are likely there: a net, or in tests a table.
//!
//! A net whose policy and value have layers of their own ([`Towers`]) is asked for half of itself: a leaf needs a
//! value, and only decisions that a simulation goes through need priors, one in dozens.

use compute::net::{Layout, Linear};
use compute::nets::{Forward, Packed, Rows};
use compute::population::Precision;
use compute::{Budget, Choice, Error, Net, Opened, Result, Tables};
use std::sync::Arc;

/// Evaluates leaves; one belongs to one thread.
pub trait Evaluate: Send {
    /// Of `n` leaves, shown as `[n, inputs]`: logits of their actions `[n, A]` and values `[n]`. A leaf's numbers do
    /// not depend on the others.
    ///
    /// # Errors
    ///
    /// Where the lengths do not fit.
    fn evaluate(&mut self, shown: &[f32], logits: &mut [f32], values: &mut [f32]) -> Result<()>;

    /// Both halves by themselves, with the same bits; none where they are not cheaper than the whole.
    fn towers(&mut self) -> Option<&mut dyn Towers> {
        None
    }
}

/// The halves of an evaluation.
pub trait Towers {
    /// `[n]` the values alone.
    ///
    /// # Errors
    ///
    /// Where the lengths do not fit.
    fn values(&mut self, shown: &[f32], values: &mut [f32]) -> Result<()>;

    /// `[n, A]` the logits alone.
    ///
    /// # Errors
    ///
    /// Where the lengths do not fit.
    fn logits(&mut self, shown: &[f32], logits: &mut [f32]) -> Result<()>;
}

/// A net with a head of as many logits as actions, then one of one value.
#[derive(Debug)]
pub struct NetEvaluator {
    layers: Layers,
    tables: Arc<Tables>,
    inputs: usize,
    actions: usize,
}

#[derive(Debug)]
enum Layers {
    Whole(Box<Pass>),
    Towers { policy: Box<Pass>, value: Box<Pass> },
}

/// Rows of a pass.
const ROWS: usize = 512;

impl NetEvaluator {
    /// The net with these parameters, `[params]`, in f32 or bf16. Its inputs are rows of numbers, in its order and as
    /// they go into the first layer: whoever scales inputs scales them before.
    ///
    /// # Errors
    ///
    /// Where an input is a window, the heads are not those of a policy with a value, or the parameters do not fit.
    pub fn new(net: &Net, params: &[f32], precision: Precision) -> Result<NetEvaluator> {
        let net = shown_net(net)?;
        let wanted = Layout::new(&net)?.params;
        if params.len() != wanted {
            return Err(Error::Invalid(format!("{} parameters for a net that has {wanted}", params.len())));
        }
        let layers = match tower(&net, params, 0)?.zip(tower(&net, params, 1)?) {
            Some((policy, value)) => {
                let pass = |(net, params): (Net, Vec<f32>)| Pass::new(&net, &params, precision).map(Box::new);
                Layers::Towers { policy: pass(policy)?, value: pass(value)? }
            }
            None => Layers::Whole(Box::new(Pass::new(&net, params, precision)?)),
        };
        let device = Opened::new(Choice::Cpu, 1)?.0;
        let tables = Tables::new(&device, Budget::default(), &[], &[])?;
        Ok(NetEvaluator { layers, tables, inputs: net.extras(), actions: net.heads[0].classes })
    }

    /// One for each thread; they share the parameters.
    ///
    /// # Errors
    ///
    /// As [`new`](NetEvaluator::new).
    pub fn several(net: &Net, params: &[f32], precision: Precision, threads: usize) -> Result<Vec<NetEvaluator>> {
        let first = NetEvaluator::new(net, params, precision)?;
        let others = (1..threads).map(|_| first.another()).collect::<Result<Vec<_>>>()?;
        Ok(std::iter::once(first).chain(others).collect())
    }

    /// The same net for another thread.
    fn another(&self) -> Result<NetEvaluator> {
        let layers = match &self.layers {
            Layers::Whole(pass) => Layers::Whole(Box::new(pass.another()?)),
            Layers::Towers { policy, value } => {
                Layers::Towers { policy: Box::new(policy.another()?), value: Box::new(value.another()?) }
            }
        };
        Ok(NetEvaluator { layers, tables: Arc::clone(&self.tables), ..*self })
    }

    /// Bytes that one takes beside parameters: the activations of a pass.
    ///
    /// # Errors
    ///
    /// Where the net is none.
    pub fn bytes(net: &Net) -> Result<u64> {
        let layout = Layout::new(&shown_net(net)?)?;
        let wide: usize = layout.buffers.iter().map(|buffer| buffer.stride).sum();
        Ok((4 * ROWS * wide) as u64)
    }

    fn check(&self, shown: &[f32], leaves: usize, logits: Option<usize>) -> Result<()> {
        if shown.len() == leaves * self.inputs && logits.is_none_or(|logits| logits == leaves * self.actions) {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "{} numbers and {} logits for {leaves} leaves of a net with {} inputs and {} actions",
            shown.len(),
            logits.unwrap_or(0),
            self.inputs,
            self.actions
        )))
    }
}

/// The same layers at the same places: only where the numbers come from differs.
fn shown_net(net: &Net) -> Result<Net> {
    let mut net = net.clone();
    if let Some(window) = net.inputs.iter().find(|input| input.window != 1) {
        return Err(Error::Invalid(format!(
            "input {} reads {} rows; a search shows one row at a time, give a net without windows",
            window.name, window.window
        )));
    }
    let [_, value] = net.heads.as_slice() else {
        return Err(Error::Invalid(format!("{} heads; a search needs a policy and a value", net.heads.len())));
    };
    if value.classes != 1 {
        return Err(Error::Invalid(format!("a value of {} numbers; a search needs one", value.classes)));
    }
    net.inputs.iter_mut().for_each(|input| input.dense = true);
    Ok(net)
}

/// One of two towers as a net of its own, with its parameters; none where the net has one trunk, or layers that both
/// read.
fn tower(net: &Net, params: &[f32], at: usize) -> Result<Option<(Net, Vec<f32>)>> {
    let whole = Layout::new(net)?;
    let own = |tower: &compute::net::Tower| tower.heads == 1 && tower.reads.is_empty() && tower.recurrent.is_empty();
    let apart = net.towers.len() == 2
        && net.towers.iter().all(own)
        && net.branches.iter().all(|branch| branch.recurrent.is_empty() && branch.layers.is_empty())
        && whole.linears.iter().all(Linear::plain);
    if !apart {
        return Ok(None);
    }
    let half = Net {
        trunk: net.towers[at].layers.clone(),
        heads: vec![net.heads[at].clone()],
        towers: Vec::new(),
        ..net.clone()
    };
    let layout = Layout::new(&half)?;
    let before: usize = net.towers[..at].iter().map(|tower| tower.layers.len()).sum();
    let hidden = whole.linears[before..].iter().take(net.towers[at].layers.len());
    let from: Vec<&Linear> = hidden.chain([&whole.linears[whole.linears.len() - 2 + at]]).collect();
    let mut copied = vec![0.0; layout.params];
    for (to, from) in layout.linears.iter().zip(from) {
        if (to.output.width, to.input.width) != (from.output.width, from.input.width) {
            return Ok(None);
        }
        let weights = to.output.width * to.input.width;
        copied[to.weight..to.weight + weights].copy_from_slice(&params[from.weight..from.weight + weights]);
        let width = to.output.width;
        copied[to.bias..to.bias + width].copy_from_slice(&params[from.bias..from.bias + width]);
    }
    Ok(Some((half, copied)))
}

/// A net with its parameters, and room for a pass.
#[derive(Debug)]
struct Pass {
    net: Net,
    precision: Precision,
    forward: Forward,
    params: Arc<Packed>,
    outputs: Vec<f32>, // [ROWS, wide]
    wide: usize,
}

impl Pass {
    fn new(net: &Net, params: &[f32], precision: Precision) -> Result<Pass> {
        let forward = Forward::new(net, precision, ROWS)?;
        let (params, wide) = (Arc::new(forward.pack(params)?), forward.outputs());
        Ok(Pass { net: net.clone(), precision, forward, params, outputs: vec![0.0; ROWS * wide], wide })
    }

    fn another(&self) -> Result<Pass> {
        let Pass { net, precision, wide, .. } = self;
        let (forward, params) = (Forward::new(net, *precision, ROWS)?, Arc::clone(&self.params));
        Ok(Pass {
            net: net.clone(),
            precision: *precision,
            forward,
            params,
            outputs: vec![0.0; ROWS * wide],
            wide: *wide,
        })
    }

    /// Gives the outputs of each row, `[wide]`, with its number.
    fn run(
        &mut self,
        tables: &Tables,
        inputs: usize,
        shown: &[f32],
        mut give: impl FnMut(usize, &[f32]),
    ) -> Result<()> {
        let mut net = self.forward.with_packed(&self.params)?;
        for (part, shown) in shown.chunks(ROWS * inputs).enumerate() {
            let out = &mut self.outputs[..shown.len() / inputs * self.wide];
            net.run(Rows { tables, scales: &[], ids: &[], extras: shown }, out)?;
            out.chunks_exact(self.wide).enumerate().for_each(|(i, z)| give(part * ROWS + i, z));
        }
        Ok(())
    }
}

impl Evaluate for NetEvaluator {
    fn evaluate(&mut self, shown: &[f32], logits: &mut [f32], values: &mut [f32]) -> Result<()> {
        self.check(shown, values.len(), Some(logits.len()))?;
        let actions = self.actions;
        match &mut self.layers {
            Layers::Towers { .. } => {
                self.logits(shown, logits)?;
                self.values(shown, values)
            }
            Layers::Whole(pass) => pass.run(&self.tables, self.inputs, shown, |row, z| {
                logits[row * actions..(row + 1) * actions].copy_from_slice(&z[..actions]);
                values[row] = z[actions];
            }),
        }
    }

    fn towers(&mut self) -> Option<&mut dyn Towers> {
        matches!(self.layers, Layers::Towers { .. }).then_some(self as &mut dyn Towers)
    }
}

impl Towers for NetEvaluator {
    fn values(&mut self, shown: &[f32], values: &mut [f32]) -> Result<()> {
        self.check(shown, values.len(), None)?;
        let (pass, at) = match &mut self.layers {
            Layers::Whole(pass) => (pass, self.actions),
            Layers::Towers { value, .. } => (value, 0),
        };
        pass.run(&self.tables, self.inputs, shown, |row, z| values[row] = z[at])
    }

    fn logits(&mut self, shown: &[f32], logits: &mut [f32]) -> Result<()> {
        let actions = self.actions;
        self.check(shown, logits.len() / actions, Some(logits.len()))?;
        let (Layers::Whole(pass) | Layers::Towers { policy: pass, .. }) = &mut self.layers;
        pass.run(&self.tables, self.inputs, shown, |row, z| {
            logits[row * actions..(row + 1) * actions].copy_from_slice(&z[..actions]);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use compute::net::init;
    use compute::random::{philox, uniform};

    /// Halves give the bits of the whole, for any number of rows; nets that share layers have none.
    #[test]
    fn towers_give_the_bits_of_the_whole_net() {
        for (text, apart) in [
            ("row:5 + account:dense3 / 24t-16 | 8t / policy:3 | value:1", true),
            ("row:8 / 64t-64t | 64t-64t / policy:3 | value:1", true),
            ("row:8 / 32-16 / policy:3 + value:1", false),
            ("row:8 / 32n-16 | 16 / policy:3 | value:1", false),
        ] {
            let net: Net = text.parse().unwrap();
            let params = init(&Layout::new(&net).unwrap(), 3, 0);
            let precision = if text.contains('n') { Precision::F32 } else { Precision::Bf16 };
            let mut own = NetEvaluator::new(&net, &params, precision).unwrap().another().unwrap();
            assert_eq!(own.towers().is_some(), apart, "{text}");
            let mut whole = Pass::new(&shown_net(&net).unwrap(), &params, precision).unwrap();
            for rows in [0, 1, 7, 24, 384, 513] {
                let number = |i: usize| 4.0 * uniform(philox(7, [i as u32, rows as u32, 0, 0])[0]) - 2.0;
                let shown: Vec<f32> = (0..rows * 8).map(number).collect();
                let mut wanted = vec![0.0; rows * 4];
                let put = |row: usize, z: &[f32]| wanted[row * 4..row * 4 + 4].copy_from_slice(z);
                whole.run(&own.tables, 8, &shown, put).unwrap();
                let (mut logits, mut values) = (vec![0.0; rows * 3], vec![0.0; rows]);
                own.evaluate(&shown, &mut logits, &mut values).unwrap();
                let given = || logits.chunks_exact(3).zip(&values).flat_map(|(z, v)| z.iter().chain([v]));
                assert!(given().zip(&wanted).all(|(a, b)| a.to_bits() == b.to_bits()), "{text} {rows}");
                let (mut alone, mut worth) = (vec![0.0; rows * 3], vec![0.0; rows]);
                own.logits(&shown, &mut alone).unwrap();
                own.values(&shown, &mut worth).unwrap();
                assert_eq!((alone, worth), (logits, values), "{text} {rows}");
            }
            assert!(own.values(&[0.0; 9], &mut [0.0]).is_err() && own.logits(&[0.0; 8], &mut [0.0; 2]).is_err());
        }
    }
}
