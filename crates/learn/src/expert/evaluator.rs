//! A net as a search asks it: its values are in units of the market's own moves.

use compute::population::Precision;
use compute::{Net, Result};
use search::{Evaluate, NetEvaluator, Towers};

/// A net whose values are counted in a unit.
#[derive(Debug)]
pub(super) struct UnitEvaluator {
    net: NetEvaluator,
    unit: f32,
}

impl UnitEvaluator {
    /// One for each thread.
    pub(super) fn several(
        net: &Net,
        params: &[f32],
        precision: Precision,
        unit: f32,
        threads: usize,
    ) -> Result<Vec<UnitEvaluator>> {
        let nets = NetEvaluator::several(net, params, precision, threads)?;
        Ok(nets.into_iter().map(|net| UnitEvaluator { net, unit }).collect())
    }
}

impl Evaluate for UnitEvaluator {
    fn evaluate(&mut self, shown: &[f32], logits: &mut [f32], values: &mut [f32]) -> Result<()> {
        self.net.evaluate(shown, logits, values)?;
        values.iter_mut().for_each(|value| *value *= self.unit);
        Ok(())
    }

    fn towers(&mut self) -> Option<&mut dyn Towers> {
        self.net.towers().is_some().then_some(self as &mut dyn Towers)
    }
}

impl Towers for UnitEvaluator {
    fn values(&mut self, shown: &[f32], values: &mut [f32]) -> Result<()> {
        self.net.values(shown, values)?;
        values.iter_mut().for_each(|value| *value *= self.unit);
        Ok(())
    }

    fn logits(&mut self, shown: &[f32], logits: &mut [f32]) -> Result<()> {
        self.net.logits(shown, logits)
    }
}
