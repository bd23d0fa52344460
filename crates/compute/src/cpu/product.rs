//! The three products of a layer, on one thread, with the widest SIMD this processor has: in tiles of our own where the
//! layer is small, which pack less than `gemm` does, and by `gemm` where it is not.
//!
//! The order of a sum depends on the shape alone, so the same rows give the same bits on any thread.

#![expect(unsafe_code, reason = "gemm takes pointers; the lengths are checked before")]

use super::tile::{self, Product, Side};

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

/// `y = x wᵀ`: `x [rows, inputs]`, `w [outputs, inputs]`, `y [rows, outputs]`.
pub(super) fn forward(rows: usize, x: Matrix<'_>, w: Matrix<'_>, y: MatrixMut<'_>) {
    let (inputs, outputs) = (x.width, y.width);
    assert_eq!(w.width, inputs);
    let (x, w) = (side(x, rows, false), side(w, outputs, true));
    product(near(inputs, outputs), rows, outputs, inputs, y, x, w, false);
}

/// `dx = dz w`, or `dx += dz w`: `dz [rows, outputs]`, `w [outputs, inputs]`, `dx [rows, inputs]`.
pub(super) fn input_back(rows: usize, dz: Matrix<'_>, w: Matrix<'_>, dx: MatrixMut<'_>, add: bool) {
    let (inputs, outputs) = (w.width, dz.width);
    assert_eq!(dx.width, inputs);
    let (dz, w) = (side(dz, rows, false), side(w, outputs, false));
    product(near(inputs, outputs), rows, inputs, outputs, dx, dz, w, add);
}

/// `dw = dzᵀ x`, or `dw += dzᵀ x`: `dz [rows, outputs]`, `x [rows, inputs]`, `dw [outputs, inputs]`.
pub(super) fn weights_back(rows: usize, dz: Matrix<'_>, x: Matrix<'_>, dw: MatrixMut<'_>, add: bool) {
    let (inputs, outputs) = (x.width, dz.width);
    assert_eq!(dw.width, inputs);
    let (dz, x) = (side(dz, rows, true), side(x, rows, false));
    product(near(inputs, outputs), outputs, inputs, rows, dw, dz, x, add);
}

/// Layers with at most so many inputs and outputs are multiplied in tiles of our own. A matter of the layer alone, so
/// that all rows are treated alike.
const NEAR: usize = 512;

fn near(inputs: usize, outputs: usize) -> bool {
    inputs.max(outputs) <= NEAR
}

fn side(matrix: Matrix<'_>, rows: usize, transposed: bool) -> Side<'_> {
    assert!(fits(matrix.values.len(), rows, matrix.stride, matrix.width), "a matrix larger than its slice");
    let (row, column) = if transposed { (1, matrix.stride) } else { (matrix.stride, 1) };
    Side { values: matrix.values, row, column }
}

fn fits(len: usize, rows: usize, stride: usize, width: usize) -> bool {
    rows == 0 || (width <= stride && (rows - 1) * stride + width <= len)
}

/// `to [m, n] (+)= left [m, k] right [k, n]`, on our own or by `gemm`.
#[expect(clippy::too_many_arguments, reason = "a product")]
fn product(near: bool, m: usize, n: usize, k: usize, to: MatrixMut<'_>, left: Side<'_>, right: Side<'_>, add: bool) {
    let MatrixMut { values: to, stride, .. } = to;
    assert!(fits(to.len(), m, stride, n), "a matrix larger than its slice");
    if near {
        return tile::multiply(Product { m, n, k, left, right, to, stride, add });
    }
    // SAFETY: `side` and the line above checked that all three matrices lie inside their slices with these shapes and
    // strides, and `to` is borrowed exclusively, so it overlaps neither side.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            to.as_mut_ptr(),
            1,
            stride as isize,
            add,
            left.values.as_ptr(),
            left.column as isize,
            left.row as isize,
            right.values.as_ptr(),
            right.column as isize,
            right.row as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
