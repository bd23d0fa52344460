//! Is every number finite, and if not, which tensor is it?

use crate::net::Layout;

/// The first number that is infinite or NaN.
pub fn first_not_finite(values: &[f32]) -> Option<usize> {
    values.iter().position(|x| !x.is_finite())
}

/// The readable name of the first tensor of a member's row that is not finite: `trunk.0.weight`.
pub fn tensor_not_finite(layout: &Layout, row: &[f32]) -> Option<String> {
    let recurrent = layout.recurrents.iter().find_map(|r| {
        let bad = first_not_finite(&row[r.weight..r.weight + r.size()])? / (4 * r.units);
        let tensor = match bad {
            _ if bad < r.wide => "weight_ih",
            _ if bad < r.wide + r.units => "weight_hh",
            _ => "bias",
        };
        Some(format!("{}.{tensor}", r.name))
    });
    let linear = || {
        layout.linears.iter().find_map(|linear| {
            let weight = &row[linear.weight..linear.weight + linear.output.width * linear.input.width];
            let bias = &row[linear.bias..linear.bias + linear.output.width];
            let wide = linear.output.width;
            let norm = linear.norm.map(|n| &row[n.gain..n.gain + 2 * wide]).and_then(first_not_finite);
            let norm = norm.map(|at| if at < wide { "norm.weight" } else { "norm.bias" });
            let weight = first_not_finite(weight).map(|_| "weight");
            let tensor = weight.or(first_not_finite(bias).map(|_| "bias")).or(norm)?;
            Some(format!("{}.{tensor}", linear.name))
        })
    };
    recurrent.or_else(linear)
}

#[cfg(test)]
mod tests {
    use super::{first_not_finite, tensor_not_finite};
    use crate::net::{Branch, Head, Input, Layout, Net};

    #[test]
    fn the_tensor_that_is_not_finite_is_named() {
        let net = Net {
            inputs: vec![Input::new("x", 4, 1)],
            branches: vec![Branch::default()],
            trunk: vec![],
            heads: vec![Head { name: "direction".into(), classes: 3 }],
            towers: vec![],
        };
        let layout = Layout::new(&net).expect("a fine net");
        let mut row = vec![0.0; layout.params];
        assert_eq!(tensor_not_finite(&layout, &row), None);
        row[layout.linears[0].bias + 1] = f32::INFINITY;
        assert_eq!(first_not_finite(&row), Some(layout.linears[0].bias + 1));
        assert_eq!(tensor_not_finite(&layout, &row).as_deref(), Some("head.direction.bias"));
        row[layout.linears[0].weight] = f32::NAN;
        assert_eq!(tensor_not_finite(&layout, &row).as_deref(), Some("head.direction.weight"));
    }

    #[test]
    fn the_tensor_of_an_lstm_that_is_not_finite_is_named() {
        let layout = Layout::new(&"4x3-lstm5-2".parse().expect("a fine net")).expect("a fine net");
        let r = &layout.recurrents[0];
        for (at, name) in [(r.at(3, 4, 3), "weight_ih"), (r.at(r.wide, 0, 0), "weight_hh"), (r.bias() + 1, "bias")] {
            let mut row = vec![0.0; layout.params];
            row[at] = f32::NAN;
            assert_eq!(tensor_not_finite(&layout, &row), Some(format!("rows.lstm.0.{name}")));
        }
    }
}
