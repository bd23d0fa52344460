"""Ready windows for the bench of training: N samples with a weak signal in two windows and a row, from a fixed seed.

Usage: make_windows.py N OUT.npz
"""

import sys

import numpy as np

n=int(sys.argv[1]); out=sys.argv[2]; rng=np.random.default_rng(7)
T1,F1,T2,F2,F3=50,16,24,12,9
y=rng.integers(0,3,n)
xf=rng.standard_normal((n,T1,F1),dtype=np.float32); xs=rng.standard_normal((n,T2,F2),dtype=np.float32); xr=rng.standard_normal((n,F3),dtype=np.float32)
s=(y-1).astype(np.float32)
xf[:,-10:,0]+=0.25*s[:,None]; xs[:,-5:,1]+=0.2*s[:,None]; xr[:,2]+=0.3*s
np.savez(out,x_fast=xf,x_slow=xs,x_strategy=xr,y=y.astype(np.int64))
