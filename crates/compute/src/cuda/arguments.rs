//! What a kernel takes: one struct, declared here and in the `.cu` file, with the same fields in the same order.
//!
//! [`arguments!`](crate::arguments) declares the Rust side and names the file with the other one. The two are compared
//! when the crate is compiled: a field with another name, type or place is a build error. Fields are laid out as C does
//! (each on a border of its own size), so equal fields are equal bytes; how many those are is compared with the
//! driver's own count when a kernel is loaded.
//!
//! | Rust | C |
//! | --- | --- |
//! | `u8` `u16` `u32` `u64` `i32` `i64` `f32` `f64` | the same words (`types.cuh`), or `float` and `double` |
//! | `Array<T>`, `Option<Array<T>>` | `View<T>` (`view.cuh`): address and length; none is null and 0 |
//! | a struct made by `arguments!` | the struct of that name |
//! | `[T; N]` of one of these | `T name[N]` |
//! | `T as C`, such as `usize as u32` | `C`: the value is converted when it is packed ([`PackAs`]) |

use super::array::{Array, Memory};
use super::memory::{Plain, Slice};
use std::sync::Arc;

/// One struct that a kernel takes by value. Made by [`arguments!`](crate::arguments).
pub trait Arguments {
    /// Its name in C.
    const NAME: &'static str;
    /// Its fields in order.
    const FIELDS: &'static [Field];
    /// Puts every field in order.
    fn pack(&self, to: &mut Packer);
}

/// A field: its name and what it is.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    name: &'static str,
    kind: Kind,
}

/// What a field is in C.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    form: Form,
    /// The C name of the number, of what is pointed at, or of the struct; empty for a pointer to anything.
    c: &'static str,
    /// Elements of an array; none for what is no array.
    elements: Option<usize>,
    /// Of a pointer with its strides: `u64` fields that follow it, by what their names add to its own.
    strides: &'static [&'static str],
    size: usize,
    align: usize,
}

impl Kind {
    /// Bytes that it takes.
    pub(crate) const fn size(self) -> usize {
        self.size
    }
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Value,
    Pointer,
    View,
}

impl Field {
    /// A field of a type.
    pub const fn new<T: Argument>(name: &'static str) -> Field {
        Field { name, kind: T::KIND }
    }
}

/// What may be a field: numbers, arrays on the device, and structs of these.
pub trait Argument: sealed::Sealed {
    /// What it is in C.
    const KIND: Kind;
    /// Puts it behind what is there.
    #[doc(hidden)]
    fn write(&self, to: &mut Packer);
}

pub(super) mod sealed {
    pub trait Sealed {}
}

/// The bytes of a struct, and the memory that its arrays lie in.
#[derive(Default)]
pub struct Packer {
    bytes: Vec<u8>,
    memory: Vec<Arc<Memory>>,
}

impl Packer {
    /// The bytes of a struct as C lays them out.
    pub(crate) fn pack<A: Arguments>(arguments: &A) -> Packer {
        let mut packer = Packer::default();
        packer.put(arguments);
        packer
    }

    /// Puts a field.
    pub fn put<T: Argument>(&mut self, field: &T) {
        self.pad(T::KIND.align);
        field.write(self);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn memory(&self) -> &[Arc<Memory>] {
        &self.memory
    }

    fn pad(&mut self, align: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(align), 0);
    }
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Argument for $t {
            const KIND: Kind =
                Kind { form: Form::Value, c: stringify!($t), elements: None, strides: &[], size: size_of::<$t>(), align: size_of::<$t>() };
            fn write(&self, to: &mut Packer) {
                to.bytes.extend(self.to_ne_bytes());
            }
        }
    )*};
}
number!(u8, u16, u32, u64, i32, i64, f32, f64);

impl<A: Arguments> sealed::Sealed for A {}
impl<A: Arguments> Argument for A {
    const KIND: Kind = {
        let (size, align) = extent(A::FIELDS);
        Kind { form: Form::Value, c: A::NAME, elements: None, strides: &[], size, align }
    };
    fn write(&self, to: &mut Packer) {
        self.pack(to);
        to.pad(A::KIND.align);
    }
}

impl<T: Plain + Argument> sealed::Sealed for Array<T> {}
impl<T: Plain + Argument> Argument for Array<T> {
    const KIND: Kind = Kind { form: Form::View, c: T::KIND.c, elements: None, strides: &[], size: 16, align: 8 };
    fn write(&self, to: &mut Packer) {
        to.put(&self.address());
        to.put(&(self.len() as u64));
        to.memory.push(self.memory().clone());
    }
}

impl<T: Plain + Argument> sealed::Sealed for Option<Array<T>> {}
impl<T: Plain + Argument> Argument for Option<Array<T>> {
    const KIND: Kind = Array::<T>::KIND;
    fn write(&self, to: &mut Packer) {
        match self {
            Some(array) => array.write(to),
            None => to.bytes.extend([0; 16]),
        }
    }
}

impl<T: Argument> sealed::Sealed for Slice<T> {}
impl<T: Argument> Argument for Slice<T> {
    const KIND: Kind = Kind { form: Form::Pointer, c: T::KIND.c, elements: None, strides: &[], size: 8, align: 8 };
    fn write(&self, to: &mut Packer) {
        self.address().write(to);
    }
}

impl<T: Argument> sealed::Sealed for Option<Slice<T>> {}
impl<T: Argument> Argument for Option<Slice<T>> {
    const KIND: Kind = Slice::<T>::KIND;
    fn write(&self, to: &mut Packer) {
        self.as_ref().map_or(0, Slice::address).write(to);
    }
}

impl<T: Argument, const N: usize> sealed::Sealed for [T; N] {}
impl<T: Argument, const N: usize> Argument for [T; N] {
    const KIND: Kind = {
        let plain = T::KIND.elements.is_none() && T::KIND.strides.is_empty();
        assert!(plain, "arrays are of numbers, pointers and structs alone");
        Kind { elements: Some(N), size: N * T::KIND.size, ..T::KIND }
    };
    fn write(&self, to: &mut Packer) {
        self.iter().for_each(|element| to.put(element));
    }
}

/// What a field is in Rust, packed as what it is in C: `batch: usize as u32`.
pub trait PackAs<C: Argument> {
    /// The value in C's type.
    fn to_c(&self) -> C;
}

impl PackAs<u32> for usize {
    /// Sizes beyond 32 bits are refused where a net is set up; one that was missed fails in the launch.
    fn to_c(&self) -> u32 {
        u32::try_from(*self).unwrap_or(u32::MAX)
    }
}

impl PackAs<u64> for usize {
    fn to_c(&self) -> u64 {
        *self as u64
    }
}

impl PackAs<u32> for bool {
    fn to_c(&self) -> u32 {
        u32::from(*self)
    }
}

impl PackAs<Address> for u64 {
    fn to_c(&self) -> Address {
        Address(*self)
    }
}

impl PackAs<Address> for Option<u64> {
    fn to_c(&self) -> Address {
        Address(self.unwrap_or(0))
    }
}

/// An address whose elements are of the type that the kernel was made for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) u64);

impl sealed::Sealed for Address {}
impl Argument for Address {
    const KIND: Kind = Kind { form: Form::Pointer, c: "", elements: None, strides: &[], size: 8, align: 8 };
    fn write(&self, to: &mut Packer) {
        self.0.write(to);
    }
}

impl Kind {
    /// An address of the kernel's own type with strides behind it, such as `y`, `y_stride` and `y_member`.
    pub(super) const fn strided(strides: &'static [&'static str]) -> Kind {
        Kind { strides, size: 8 * (1 + strides.len()), ..Address::KIND }
    }
}

/// Size and border of a struct with these fields, as C lays them out.
const fn extent(fields: &[Field]) -> (usize, usize) {
    let (mut end, mut most, mut at) = (0usize, 1, 0);
    while at < fields.len() {
        let Kind { size, align, .. } = fields[at].kind;
        end = end.next_multiple_of(align) + size;
        most = if align > most { align } else { most };
        at += 1;
    }
    (end.next_multiple_of(most), most)
}

/// Why two declarations of a struct are not the same; none where they are. For [`arguments!`](crate::arguments).
#[doc(hidden)]
pub const fn difference(source: &str, name: &str, fields: &[Field]) -> Option<&'static str> {
    let text = source.as_bytes();
    let Some(mut at) = open(text, name.as_bytes()) else { return Some("the C file declares no struct of this name") };
    let mut field = 0;
    loop {
        at = blank(text, at);
        if at >= text.len() {
            return Some("the C struct has no end");
        }
        if text[at] == b'}' {
            return if field == fields.len() { None } else { Some("the C struct has fewer fields") };
        }
        if field == fields.len() {
            return Some("the C struct has more fields");
        }
        let Field { name, kind } = fields[field];
        at = match matches(text, at, name, "", kind) {
            Ok(end) => end,
            Err(why) => return Some(why),
        };
        let mut stride = 0;
        while stride < kind.strides.len() {
            at = match matches(text, blank(text, at), name, kind.strides[stride], u64::KIND) {
                Ok(end) => end,
                Err(why) => return Some(why),
            };
            stride += 1;
        }
        field += 1;
    }
}

/// Where the fields of `struct name` begin.
const fn open(text: &[u8], name: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at + 7 + name.len() < text.len() {
        if text[at] == b's' && (at == 0 || !is_word(text[at - 1])) && starts(text, at, b"struct ") {
            let end = at + 7 + name.len();
            if starts(text, at + 7, name) && !is_word(text[end]) {
                let brace = blank(text, end);
                if brace < text.len() && text[brace] == b'{' {
                    return Some(brace + 1);
                }
            }
        }
        at += 1;
    }
    None
}

/// Reads `type name;`, where the name has two parts, and says where it ends.
const fn matches(text: &[u8], start: usize, name: &str, rest: &str, kind: Kind) -> Result<usize, &'static str> {
    let mut at = start;
    // The type: words and marks, without `const` and `__restrict__`, up to the last word, which is the name.
    let c = kind.c.as_bytes();
    let (mut seen, mut of_type, mut marks) = (0, true, 0);
    loop {
        at = blank(text, at);
        if at >= text.len() {
            return Err("the C struct has no end");
        }
        if is_word(text[at]) {
            let mut end = at;
            while end < text.len() && is_word(text[end]) {
                end += 1;
            }
            let mut next = blank(text, end);
            let mut elements = None;
            if next < text.len() && text[next] == b'[' {
                (elements, next) = number(text, next + 1);
            }
            if next < text.len() && text[next] == b';' {
                let same = end - at == name.len() + rest.len()
                    && starts(text, at, name.as_bytes())
                    && starts(text, at + name.len(), rest.as_bytes());
                of_type &= match (elements, kind.elements) {
                    (Some(there), Some(here)) => there == here,
                    (None, None) => true,
                    _ => false,
                };
                let right = match kind.form {
                    Form::Value => marks == 0 && seen == 1,
                    Form::Pointer => marks == 1 && seen == 1,
                    Form::View => marks == 2 && seen == 2,
                };
                return match (same, of_type && right) {
                    (true, true) => Ok(next + 1),
                    (false, _) => Err("a field of the C struct has another name, or is elsewhere"),
                    (true, false) => Err("a field of the C struct is of another type"),
                };
            }
            let ignored = is(text, at, end, b"const") || is(text, at, end, b"__restrict__");
            if !ignored {
                let view = matches!(kind.form, Form::View) && seen == 0;
                of_type &= if view { is(text, at, end, b"View") } else { c.is_empty() || same_type(text, at, end, c) };
                seen += 1;
            }
            at = end;
        } else {
            marks += match (kind.form, text[at]) {
                (Form::Pointer, b'*') | (Form::View, b'<' | b'>') => 1,
                _ => return Err("a field of the C struct is of another type"),
            };
            at += 1;
        }
    }
}

/// The number up to a `]`, and where it goes on behind that.
const fn number(text: &[u8], mut at: usize) -> (Option<usize>, usize) {
    let mut number = 0;
    while at < text.len() && text[at].is_ascii_digit() {
        number = 10 * number + (text[at] - b'0') as usize;
        at += 1;
    }
    if at < text.len() && text[at] == b']' { (Some(number), blank(text, at + 1)) } else { (None, at) }
}

/// `float` and `double` are written where C has no better word.
const fn same_type(text: &[u8], from: usize, to: usize, c: &[u8]) -> bool {
    is(text, from, to, c)
        || is(text, from, to, b"float") && starts(c, 0, b"f32")
        || is(text, from, to, b"double") && starts(c, 0, b"f64")
        || is(text, from, to, b"bf16") && starts(c, 0, b"u16")
}

const fn is(text: &[u8], from: usize, to: usize, word: &[u8]) -> bool {
    to - from == word.len() && starts(text, from, word)
}

const fn starts(text: &[u8], at: usize, with: &[u8]) -> bool {
    let mut i = 0;
    while i < with.len() {
        if at + i >= text.len() || text[at + i] != with[i] {
            return false;
        }
        i += 1;
    }
    true
}

const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Behind blanks and comments.
const fn blank(text: &[u8], mut at: usize) -> usize {
    while at < text.len() {
        if text[at].is_ascii_whitespace() {
            at += 1;
        } else if starts(text, at, b"//") {
            while at < text.len() && text[at] != b'\n' {
                at += 1;
            }
        } else {
            break;
        }
    }
    at
}

/// Declares the struct that a kernel takes, whose twin is in a C file beside it.
///
/// ```text
/// compute::arguments! {
///     /// `y = a x + y`.
///     pub struct Saxpy in "saxpy.cu" {
///         x: Array<f32>,
///         y: Array<f32>,
///         a: f32,
///     }
/// }
/// ```
///
/// with `struct Saxpy { View<const f32> x; View<f32> y; f32 a; };` in that file, each field with a line of its own.
#[macro_export]
macro_rules! arguments {
    (@c $kind:ty) => { $kind };
    (@c $kind:ty, $c:ty) => { $c };
    (@put $to:ident, $value:expr) => { $to.put(&$value) };
    (@put $to:ident, $value:expr, $c:ty) => { $to.put(&$crate::cuda::PackAs::<$c>::to_c(&$value)) };
    ($(#[$about:meta])* $visible:vis struct $name:ident in $file:literal {
        $($(#[$of_field:meta])* $field_visible:vis $field:ident: $kind:ty $(as $c:ty)?),* $(,)?
    }) => {
        $(#[$about])*
        $visible struct $name {
            $($(#[$of_field])* $field_visible $field: $kind,)*
        }
        impl $crate::cuda::Arguments for $name {
            const NAME: &'static str = stringify!($name);
            const FIELDS: &'static [$crate::cuda::Field] =
                &[$($crate::cuda::Field::new::<$crate::arguments!(@c $kind $(, $c)?)>(stringify!($field)),)*];
            fn pack(&self, to: &mut $crate::cuda::Packer) {
                $($crate::arguments!(@put to, self.$field $(, $c)?);)*
            }
        }
        const _: () = if let Some(why) = $crate::cuda::difference(
            include_str!($file),
            stringify!($name),
            <$name as $crate::cuda::Arguments>::FIELDS,
        ) {
            panic!("{}", why)
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    arguments! {
        /// With holes that C leaves too.
        #[derive(Default)]
        struct Inner in "tests/arguments.cuh" { a: u8, b: f64, c: u16 }
    }

    arguments! {
        #[derive(Default)]
        struct Pair in "tests/arguments.cuh" { a: u32, b: bool as u32 }
    }

    arguments! {
        #[derive(Default)]
        struct Outer in "tests/arguments.cuh" {
            first: u32,
            inner: Inner,
            at: Address,
            y: Places,
            rows: Option<Slice<f32>>,
            list: Option<Array<u32>>,
            pairs: [Pair; 2],
            many: usize as u32,
            wide: usize as u64,
            last: i32,
        }
    }

    #[derive(Default)]
    struct Places;
    impl sealed::Sealed for Places {}
    impl Argument for Places {
        const KIND: Kind = Kind::strided(&["_stride", "_member"]);
        fn write(&self, to: &mut Packer) {
            [11u64, 12, 13].iter().for_each(|word| to.put(word));
        }
    }

    #[test]
    fn packed_fields_lie_where_c_expects_them() {
        assert_eq!(extent(Inner::FIELDS), (24, 8));
        assert_eq!(extent(Outer::FIELDS), (8 + 24 + 8 + 24 + 8 + 16 + 16 + 8 + 8 + 8, 8));
        let outer = Outer {
            first: 1,
            inner: Inner { a: 2, b: 1.0, c: 3 },
            at: Address(7),
            pairs: [Pair { a: 4, b: true }, Pair { a: 5, b: false }],
            many: 6,
            wide: 7,
            last: -1,
            ..Outer::default()
        };
        let packed = Packer::pack(&outer);
        let mut expected = vec![1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        expected.extend(1f64.to_ne_bytes());
        expected.extend([3, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([11u64, 12, 13].iter().flat_map(|word| word.to_ne_bytes()));
        expected.extend([0; 8 + 16]);
        expected.extend([4u32, 1, 5, 0, 6, 0, 7, 0].iter().flat_map(|word| word.to_ne_bytes()));
        expected.extend([0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        assert_eq!(packed.bytes(), expected);
        assert!(packed.memory().is_empty());
    }

    #[test]
    fn a_struct_that_differs_from_its_c_twin_is_named() {
        let whole = "struct S {\n    // why\n    const float* __restrict__ x; // [n]\n    u32 n;\n    u8 few[3]; // why\n    View<const u16> v;\n};";
        let x = Field::new::<Slice<f32>>("x");
        let few = Field::new::<[u8; 3]>("few");
        let fields = [x, Field::new::<u32>("n"), few, Field::new::<Array<u16>>("v")];
        assert_eq!(difference(whole, "S", &fields), None);
        assert_eq!(difference(whole, "S", &[Field::new::<Address>("x"), fields[1], few, fields[3]]), None);
        for (text, part) in [
            (whole.replace("struct S", "struct T"), "no struct"),
            (whole.replace("struct S {", "struct S;"), "no struct"),
            (whole.replace("u32 n", "u32 m"), "another name"),
            (whole.replace("u32 n", "u64 n"), "another type"),
            (whole.replace("u32 n", "u32* n"), "another type"),
            (whole.replace("float* __restrict__", "float"), "another type"),
            (whole.replace("float*", "u32*"), "another type"),
            (whole.replace("float*", "float**"), "another type"),
            (whole.replace("View<const u16>", "u16*"), "another type"),
            (whole.replace("View<const u16>", "View<u32>"), "another type"),
            (whole.replace("few[3]", "few[4]"), "another type"),
            (whole.replace("few[3]", "few"), "another type"),
            (whole.replace("u32 n;", "u32 n[1];"), "another type"),
            (whole.replace("    u32 n;\n", ""), "another"),
            (whole.replace("u32 n;", "u32 n; u32 k;"), "another name"),
            (whole.replace("v;\n};", "v;\n    u32 k;\n};"), "more fields"),
            (whole.replace("    View<const u16> v;\n", ""), "fewer fields"),
            (whole.replace("};", ""), "no end"),
        ] {
            let why = difference(&text, "S", &fields);
            assert!(why.is_some_and(|w| w.contains(part)), "{text}: {why:?}");
        }
        let places = [Field::new::<Places>("y")];
        let strided = "struct S { const T* y; u64 y_stride; u64 y_member; };";
        assert_eq!(difference(strided, "S", &places), None);
        for (text, part) in [
            (strided.replace("y_stride", "y_row"), "another name"),
            (strided.replace("u64 y_member", "u32 y_member"), "another type"),
            (strided.replace(" u64 y_member;", ""), "another"),
            (strided.replace("y_member;", "y_member; u64 k;"), "more fields"),
        ] {
            let why = difference(&text, "S", &places);
            assert!(why.is_some_and(|w| w.contains(part)), "{text}: {why:?}");
        }
        let swapped = [fields[1], x, few, fields[3]];
        assert!(difference(whole, "S", &swapped).is_some());
    }
}
