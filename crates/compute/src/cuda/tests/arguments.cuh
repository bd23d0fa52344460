// Structs for the tests of `arguments.rs`; no kernel takes them.
struct Inner {
    u8 a;
    f64 b;
    u16 c;
};

struct Pair {
    u32 a;
    u32 b;
};

struct Outer {
    u32 first;
    Inner inner;       // by value
    const bf16* at;    // of the kernel's type
    bf16* y;           // with its strides
    u64 y_stride;
    u64 y_member;
    const float* rows; // or null
    View<u32> list;
    Pair pairs[2];
    u32 many;
    u64 wide;
    i32 last;
};
