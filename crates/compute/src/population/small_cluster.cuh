// Blocks that form a cluster: who they are, how they wait for each other, and how one writes into another's shared
// memory. From compute capability 9.0 on.
#pragma once

#include "small.cuh"

__device__ __forceinline__ u32 cluster_rank() {
    u32 rank;
    asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
    return rank;
}

// What any thread of the cluster wrote before it arrived is seen by all that have waited.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;\n" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;\n" ::: "memory"); }

// The address of a place in the shared memory of a block of the cluster.
__device__ __forceinline__ u32 place_at(u32 rank, u32 place) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(there) : "r"(shared_address(shared_memory) + place), "r"(rank));
    return there;
}

// Writes there. The block must have begun and may not have ended.
__device__ __forceinline__ void tell(u32 there, double value) { asm volatile("st.shared::cluster.f64 [%0], %1;\n" ::"r"(there), "d"(value) : "memory"); }
__device__ __forceinline__ void tell(u32 there, uint4 v) {
    asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};\n" ::"r"(there), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
