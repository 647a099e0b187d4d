//! libzircon.so, the vDSO.
#![no_std]
