// An array as `cuda::Array` passes it: where it begins and how long it is, never one without the other.
//
// `[]` is checked: an index beyond the end stops the kernel, and the next call on the stream says so. Inner loops that
// have checked their range once may use `data`.
#pragma once

#include "types.cuh"

template <typename T> struct View {
    T* data;
    u64 len;

    __device__ __forceinline__ T& operator[](u64 i) const {
        if (i >= len) __trap();
        return data[i];
    }
    __device__ __forceinline__ explicit operator bool() const { return data != nullptr; }
};
