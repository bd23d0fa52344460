//! The three products of a layer, on one thread, with the widest SIMD this processor has (`gemm` looks at run time).
//!
//! The order of a sum depends on the shape alone, so the same rows give the same bits on any thread.

#![expect(unsafe_code, reason = "gemm takes pointers; the lengths are checked before")]

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
    product(rows, outputs, inputs, y, x, w, false);
}

/// `dx = dz w`, or `dx += dz w`: `dz [rows, outputs]`, `w [outputs, inputs]`, `dx [rows, inputs]`.
pub(super) fn input_back(rows: usize, dz: Matrix<'_>, w: Matrix<'_>, dx: MatrixMut<'_>, add: bool) {
    let (inputs, outputs) = (w.width, dz.width);
    assert_eq!(dx.width, inputs);
    let (dz, w) = (side(dz, rows, false), side(w, outputs, false));
    product(rows, inputs, outputs, dx, dz, w, add);
}

/// `dw = dzᵀ x`, or `dw += dzᵀ x`: `dz [rows, outputs]`, `x [rows, inputs]`, `dw [outputs, inputs]`.
pub(super) fn weights_back(rows: usize, dz: Matrix<'_>, x: Matrix<'_>, dw: MatrixMut<'_>, add: bool) {
    let (inputs, outputs) = (x.width, dz.width);
    assert_eq!(dw.width, inputs);
    let (dz, x) = (side(dz, rows, true), side(x, rows, false));
    product(outputs, inputs, rows, dw, dz, x, add);
}

/// One side of a product: where it begins, from a column to the next, from a row to the next.
struct Side(*const f32, isize, isize);

fn side(matrix: Matrix<'_>, rows: usize, transposed: bool) -> Side {
    assert!(fits(matrix.values.len(), rows, matrix.stride, matrix.width), "a matrix larger than its slice");
    let (row, column) = (matrix.stride as isize, 1);
    let (row, column) = if transposed { (column, row) } else { (row, column) };
    Side(matrix.values.as_ptr(), column, row)
}

fn fits(len: usize, rows: usize, stride: usize, width: usize) -> bool {
    rows == 0 || (width <= stride && (rows - 1) * stride + width <= len)
}

/// `to [m, n] (+)= left [m, k] right [k, n]`
fn product(m: usize, n: usize, k: usize, to: MatrixMut<'_>, left: Side, right: Side, add: bool) {
    assert!(fits(to.values.len(), m, to.stride, n), "a matrix larger than its slice");
    // SAFETY: `side` and the line above checked that all three matrices lie inside their slices with these shapes and strides, and `to`
    // is borrowed exclusively, so it overlaps neither side.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            to.values.as_mut_ptr(),
            1,
            to.stride as isize,
            add,
            left.0,
            left.1,
            left.2,
            right.0,
            right.1,
            right.2,
            1.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}
