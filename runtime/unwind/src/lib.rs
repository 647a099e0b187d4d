//! libunwind.a, the unwinder that programs link.
#![no_std]
