//! How large things may be.

consts! { TABLE;
    [usize]
        /// Bytes of an object's name, the NUL included.
        ZX_MAX_NAME_LEN = 32;
        /// Items of one `zx_object_wait_many`.
        ZX_WAIT_MANY_MAX_ITEMS = 64;
        /// Bytes that one entry into the system draws of random numbers.
        ZX_CPRNG_DRAW_MAX_LEN = 256;
        /// Bytes of one `zx_cprng_add_entropy`.
        ZX_CPRNG_ADD_ENTROPY_MAX_LEN = 256;
        /// Bytes of a page.
        ZX_PAGE_SIZE = 4096;
        /// The longest x86 instruction.
        X86_MAX_INST_LEN = 15;
    [u32]
        /// Bytes of a channel message.
        ZX_CHANNEL_MAX_MSG_BYTES = 65536;
        /// Handles of a channel message.
        ZX_CHANNEL_MAX_MSG_HANDLES = 64;
        /// Parts of a channel message that is written with [`crate::ZX_CHANNEL_WRITE_USE_IOVEC`].
        ZX_CHANNEL_MAX_MSG_IOVECS = 8192;
        /// Bytes that all elements of a FIFO take.
        ZX_FIFO_MAX_SIZE_BYTES = 4096;
        /// log2 of the smallest page.
        ZX_MIN_PAGE_SHIFT = 12;
        /// log2 of the largest page.
        ZX_MAX_PAGE_SHIFT = 21;
}
