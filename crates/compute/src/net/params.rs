//! A member's parameters as safetensors, and back.
//!
//! `trunk.0.weight` `[outputs, inputs]`, `trunk.0.bias` `[outputs]`, `fast.0.weight`, `head.direction.weight`: readable
//! names, PyTorch's shapes, no padding, f32. A norm is `trunk.0.norm.weight` and `trunk.0.norm.bias` `[outputs]`. A
//! recurrent layer is `fast.lstm.0.weight_ih` `[4 H, F]`, `fast.lstm.0.weight_hh` `[4 H, H]` and `fast.lstm.0.bias` `[4
//! H]`, gates stacked i, f, g, o as PyTorch does. PyTorch has two biases that are only ever added: a file with
//! `bias_ih` and `bias_hh` instead of `bias` is read as their sum. The one metadata key `fullbore` holds sorted JSON
//! with the format and the net's text; there is no time and no path in it, so the same parameters are the same bytes. A
//! file without that key is read by names and shapes alone. f16 and bf16 are read too.

use super::{Layout, Linear, Net, Recurrent};
use crate::error::{Error, Result, format_bytes};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::HashMap;

const KEY: &str = "fullbore";
const FORMAT: u64 = 1;

/// A tensor with its readable name, its shape and its values in order.
pub type Tensor = (String, Vec<usize>, Vec<f32>);

/// Every tensor of a member's row of the arena, without padding.
pub fn flatten(layout: &Layout, row: &[f32]) -> Vec<Tensor> {
    let parts = layout.recurrents.iter().flat_map(Recurrent::parts);
    let mut tensors: Vec<Tensor> =
        parts.map(|p| (p.name, p.shape, p.places.into_iter().map(|at| row[at]).collect())).collect();
    for l in &layout.linears {
        let values = places(l).map(|at| row[at]).collect();
        tensors.push((format!("{}.weight", l.name), vec![l.outputs, l.inputs()], values));
        tensors.extend(vectors(l).into_iter().map(|(name, at)| {
            let values = row[at..at + l.outputs].to_vec();
            (name, vec![l.outputs], values)
        }));
    }
    tensors
}

/// A row of the arena of another net, whose tensors all are in the first as well, under the name that `name_in_first`
/// gives: a tower as a trunk alone, say.
///
/// # Panics
///
/// If one is not, or has another shape.
pub fn pick(from: &Layout, row: &[f32], to: &Layout, name_in_first: &dyn Fn(&str) -> String) -> Vec<f32> {
    let tensors: HashMap<String, (Vec<usize>, Vec<f32>)> =
        flatten(from, row).into_iter().map(|(name, shape, values)| (name, (shape, values))).collect();
    let mut picked = vec![0.0; to.params];
    let mut put = |name: String, shape: &[usize], places: &mut dyn Iterator<Item = usize>| {
        let (own, values) = tensors.get(&name_in_first(&name)).expect("a tensor of the first net");
        assert_eq!(own, shape, "the shape of {name}");
        places.zip(values).for_each(|(at, value)| picked[at] = *value);
    };
    for part in to.recurrents.iter().flat_map(Recurrent::parts) {
        put(part.name, &part.shape, &mut part.places.into_iter());
    }
    for l in &to.linears {
        put(format!("{}.weight", l.name), &[l.outputs, l.inputs()], &mut places(l));
        for (name, at) in vectors(l) {
            put(name, &[l.outputs], &mut (at..at + l.outputs));
        }
    }
    picked
}

/// The bytes of a safetensors file with the parameters in `row`, a member's row of the arena.
pub fn save(net: &Net, layout: &Layout, row: &[f32]) -> Vec<u8> {
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = flatten(layout, row)
        .into_iter()
        .map(|(name, shape, values)| (name, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()))
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).expect("the shape is that of the values");
        (name.as_str(), view)
    });
    // Two keys, written in sorted order.
    let about = format!("{{\"format\":{FORMAT},\"net\":{}}}", serde_json::Value::from(net.to_string()));
    let metadata = HashMap::from([(KEY.to_string(), about)]);
    safetensors::serialize(views, Some(metadata)).expect("names are unique and a header of this size is allowed")
}

/// A member's row of the arena `[layout.params]` from a safetensors file; padding is zero.
pub fn load(net: &Net, layout: &Layout, file: &[u8]) -> Result<Vec<f32>> {
    within_caps(layout, file)?;
    let invalid =
        |e: safetensors::SafeTensorError| Error::Invalid(format!("the parameters are not a safetensors file: {e}"));
    let (_, header) = SafeTensors::read_metadata(file).map_err(invalid)?;
    if let Some(about) = header.metadata().as_ref().and_then(|all| all.get(KEY)) {
        same_net(net, about)?;
    }
    let tensors = SafeTensors::deserialize(file).map_err(invalid)?;
    let mut row = vec![0.0; layout.params];
    let mut known = Vec::new();
    for part in layout.recurrents.iter().flat_map(Recurrent::parts) {
        let both = ["bias_ih", "bias_hh"].map(|bias| part.name.replace(".bias", &format!(".{bias}")));
        let summed = part.shape.len() == 1 && tensors.tensor(&part.name).is_err();
        if summed && both.iter().any(|name| tensors.tensor(name).is_ok()) {
            for name in both {
                for (at, value) in part.places.iter().zip(read(&tensors, &name, &part.shape)?) {
                    row[*at] += value;
                }
                known.push(name);
            }
            continue;
        }
        for (at, value) in part.places.iter().zip(read(&tensors, &part.name, &part.shape)?) {
            row[*at] = value;
        }
        known.push(part.name);
    }
    for l in &layout.linears {
        let weight = format!("{}.weight", l.name);
        for (at, value) in places(l).zip(read(&tensors, &weight, &[l.outputs, l.inputs()])?) {
            row[at] = value;
        }
        known.push(weight);
        for (name, at) in vectors(l) {
            row[at..at + l.outputs].copy_from_slice(&read(&tensors, &name, &[l.outputs])?);
            known.push(name);
        }
    }
    if tensors.len() > known.len() {
        let mut more: Vec<String> =
            tensors.names().iter().filter(|n| !known.iter().any(|w| w == **n)).map(|n| shown(n)).collect();
        more.sort();
        let rest = if more.len() > 3 { format!(" and {} more", more.len() - 3) } else { String::new() };
        more.truncate(3);
        return Err(Error::Invalid(format!(
            "the net `{net}` has no {}{rest}; the file is of another net",
            more.join(", ")
        )));
    }
    Ok(row)
}

/// Where the weights lie in a row of the arena, `[outputs, inputs]` in order.
pub(super) fn places(l: &Linear) -> impl Iterator<Item = usize> {
    let row =
        move |o: usize| l.columns.iter().flat_map(move |c| c.clone().map(move |c| l.weight + o * l.input.width + c));
    (0..l.outputs).flat_map(row)
}

/// The names of what has one number for each output, and where each lies: the bias, then the gain and the shift of a
/// norm.
fn vectors(l: &Linear) -> Vec<(String, usize)> {
    let mut all = vec![(format!("{}.bias", l.name), l.bias)];
    if let Some(norm) = l.norm {
        all.push((format!("{}.norm.weight", l.name), norm.gain));
        all.push((format!("{}.norm.bias", l.name), norm.gain + l.output.width));
    }
    all
}

/// A file that is larger than such a net's can be is refused before it is read; so is a header.
fn within_caps(layout: &Layout, file: &[u8]) -> Result<()> {
    let names = layout.linears.iter().map(|l| &l.name).chain(layout.recurrents.iter().map(|r| &r.name));
    let header = 64 * 1024 + names.map(|name| 4 * (name.len() as u64 + 256)).sum::<u64>();
    let length = file.first_chunk().map(|n| u64::from_le_bytes(*n));
    if length.is_some_and(|n| n > header) {
        return Err(Error::Invalid(format!(
            "the parameters are not a safetensors file: their header is over {}",
            format_bytes(header)
        )));
    }
    // A second bias of each recurrent layer may come along.
    let biases = layout.recurrents.iter().map(|r| 4 * r.hidden as u64).sum::<u64>();
    let most = 8 + header + 4 * (layout.params as u64 + biases);
    if file.len() as u64 > most {
        let size = format_bytes(file.len() as u64);
        return Err(Error::Invalid(format!("{size} of parameters; this net has at most {}", format_bytes(most))));
    }
    Ok(())
}

/// What our own metadata says must fit: another net may have the same shapes.
fn same_net(net: &Net, about: &str) -> Result<()> {
    let about: serde_json::Value = serde_json::from_str(about)
        .map_err(|e| Error::Invalid(format!("the metadata `{KEY}` of the parameters is not valid JSON: {e}")))?;
    if about["format"].as_u64() != Some(FORMAT) {
        let format = shown(&about["format"].to_string());
        return Err(Error::Invalid(format!("the parameters have format {format}; this version reads format {FORMAT}")));
    }
    match about["net"].as_str() {
        Some(text) if text == net.to_string() => Ok(()),
        other => Err(Error::Invalid(format!(
            "the parameters are of the net {}, not of `{net}`",
            shown(other.unwrap_or("that is not named"))
        ))),
    }
}

/// One tensor as f32, if it is there, of that shape, and finite.
fn read(tensors: &SafeTensors<'_>, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
    let invalid = |what: String| Error::Invalid(format!("tensor `{name}` {what}"));
    let tensor = tensors.tensor(name).map_err(|_| invalid("is missing; the file is of another net".into()))?;
    if tensor.shape() != shape {
        return Err(invalid(format!("has the shape {:?}; the net needs {shape:?}", tensor.shape())));
    }
    let data = tensor.data();
    let values: Vec<f32> = match tensor.dtype() {
        Dtype::F32 => data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        Dtype::F16 => data.as_chunks().0.iter().map(|b| half::f16::from_le_bytes(*b).to_f32()).collect(),
        Dtype::BF16 => data.as_chunks().0.iter().map(|b| half::bf16::from_le_bytes(*b).to_f32()).collect(),
        other => return Err(invalid(format!("is {other:?}; F32, F16 and BF16 are read"))),
    };
    if values.len() != shape.iter().product::<usize>() {
        return Err(invalid(format!("has {} values, which do not match its shape {shape:?}", values.len())));
    }
    match values.iter().position(|v| !v.is_finite()) {
        Some(at) => Err(invalid(format!("is {} at element {at}; parameters must be finite", values[at]))),
        None => Ok(values),
    }
}

/// A stranger's words, short and without control characters.
fn shown(text: &str) -> String {
    let mut short: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() {
        short.push('…');
    }
    format!("`{short}`")
}
