// Hyper-parameters of members in a card's memory, for kernels in which each member has its own.
#pragma once

#include "../cuda/view.cuh"
#include "optimiser.cuh"

// Each member's hyper-parameters, as they are when a step runs.
struct Hypers {
    View<const float> rate; // [P] each
    View<const float> beta1;
    View<const float> beta2;
    View<const float> eps;
    View<const float> decay;
    View<const float> clip; // not above 0: none
    View<const double> weight;
};

__device__ __forceinline__ Optimiser optimiser_of(const Hypers& each, u32 slot, u32 rule) {
    Optimiser o = {};
    o.rule = rule;
    o.beta1 = each.beta1[slot], o.beta2 = each.beta2[slot], o.eps = each.eps[slot];
    o.decay = each.decay[slot], o.clip = each.clip[slot];
    return o;
}
