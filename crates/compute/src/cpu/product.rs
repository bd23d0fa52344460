//! The three products of a layer, on one thread, with the widest SIMD this processor has.
//!
//! The order of a sum depends on the shape alone, so the same rows give the same bits on any thread. Each product says
//! whether its numbers are rounded to bf16, which some processors multiply twice as fast.

use super::tile::{self, Product, Right, Side};

/// A row-major matrix: rows of `width` numbers, `stride` apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) values: &'a [f32],
    pub(super) stride: usize,
    pub(super) width: usize,
}

/// A row-major matrix to write.
#[derive(Debug)]
pub(super) struct MatrixMut<'a> {
    pub(super) values: &'a mut [f32],
    pub(super) stride: usize,
    pub(super) width: usize,
}

/// A layer's weights, `[outputs, inputs]`.
#[derive(Debug, Clone, Copy)]
pub(super) enum LayerWeights<'a> {
    Rows(Matrix<'a>),
    /// In strips of outputs ([`tile::strips`]), for few rows at a time.
    Strips(&'a [f32]),
}

/// `y = x wᵀ`: `x [rows, inputs]`, `w [outputs, inputs]`, `y [rows, outputs]`.
pub(super) fn forward(rows: usize, x: Matrix<'_>, w: LayerWeights<'_>, y: MatrixMut<'_>, bf16: bool) {
    let (inputs, outputs) = (x.width, y.width);
    let right = match w {
        LayerWeights::Rows(w) => {
            assert_eq!(w.width, inputs);
            Right::Matrix(side(w, outputs, true))
        }
        LayerWeights::Strips(values) => Right::Strips(values),
    };
    product([rows, outputs, inputs], y, side(x, rows, false), right, [false, bf16]);
}

/// `dx = dz w`, or `dx += dz w`: `dz [rows, outputs]`, `w [outputs, inputs]`, `dx [rows, inputs]`.
pub(super) fn input_back(rows: usize, dz: Matrix<'_>, w: Matrix<'_>, dx: MatrixMut<'_>, [add, bf16]: [bool; 2]) {
    let (inputs, outputs) = (w.width, dz.width);
    assert_eq!(dx.width, inputs);
    let right = Right::Matrix(side(w, outputs, false));
    product([rows, inputs, outputs], dx, side(dz, rows, false), right, [add, bf16]);
}

/// `dw = dzᵀ x`, or `dw += dzᵀ x`: `dz [rows, outputs]`, `x [rows, inputs]`, `dw [outputs, inputs]`.
pub(super) fn weights_back(rows: usize, dz: Matrix<'_>, x: Matrix<'_>, dw: MatrixMut<'_>, [add, bf16]: [bool; 2]) {
    let (inputs, outputs) = (x.width, dz.width);
    assert_eq!(dw.width, inputs);
    product([outputs, inputs, rows], dw, side(dz, rows, true), Right::Matrix(side(x, rows, false)), [add, bf16]);
}

/// `c = a b`, all row-major `[side, side]`, as layers are multiplied.
pub(crate) fn square_product(side: usize, a: &[f32], b: &[f32], c: &mut [f32], bf16: bool) {
    let [a, b] = [a, b].map(|values| Matrix { values, stride: side, width: side });
    input_back(side, a, b, MatrixMut { values: c, stride: side, width: side }, [false, bf16]);
}

fn side(matrix: Matrix<'_>, rows: usize, transposed: bool) -> Side<'_> {
    assert!(fits(matrix.values.len(), rows, matrix.stride, matrix.width), "a matrix larger than its slice");
    let (row, column) = if transposed { (1, matrix.stride) } else { (matrix.stride, 1) };
    Side { values: matrix.values, row, column }
}

fn fits(len: usize, rows: usize, stride: usize, width: usize) -> bool {
    rows == 0 || (width <= stride && (rows - 1) * stride + width <= len)
}

/// `to [m, n] (+)= left [m, k] right [k, n]`
fn product([m, n, k]: [usize; 3], to: MatrixMut<'_>, left: Side<'_>, right: Right<'_>, [add, bf16]: [bool; 2]) {
    let MatrixMut { values: to, stride, .. } = to;
    assert!(fits(to.len(), m, stride, n), "a matrix larger than its slice");
    tile::multiply(Product { m, n, k, left, right, to, stride, add, bf16 });
}
