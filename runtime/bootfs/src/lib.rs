//! The BOOTFS image format: reader and writer.
#![no_std]
