// Structs for the tests of `arguments.rs`; no kernel takes them.
struct Inner {
    u8 a;
    f64 b;
    u16 c;
};

struct Outer {
    u32 first;
    Inner inner;       // by value
    const bf16* at;    // of the kernel's type
    const float* rows; // or null
    View<u32> list;
    i32 last;
};
