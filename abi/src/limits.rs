//! Limits.

consts! { TABLE;
    [usize]
        /// Maximum length of an object's name in bytes, including the NUL.
        ZX_MAX_NAME_LEN = 32;
        /// Maximum number of items of one `zx_object_wait_many`.
        ZX_WAIT_MANY_MAX_ITEMS = 64;
        /// Maximum number of random bytes that one call to the server draws.
        ZX_CPRNG_DRAW_MAX_LEN = 256;
        /// Maximum number of bytes of one `zx_cprng_add_entropy`.
        ZX_CPRNG_ADD_ENTROPY_MAX_LEN = 256;
        /// Bytes of a page.
        ZX_PAGE_SIZE = 4096;
        /// Maximum length of an x86 instruction, in bytes.
        X86_MAX_INST_LEN = 15;
    [u32]
        /// Maximum size of a channel message, in bytes.
        ZX_CHANNEL_MAX_MSG_BYTES = 65536;
        /// Maximum number of handles in a channel message.
        ZX_CHANNEL_MAX_MSG_HANDLES = 64;
        /// Maximum number of parts of a channel message that is written with [`crate::ZX_CHANNEL_WRITE_USE_IOVEC`].
        ZX_CHANNEL_MAX_MSG_IOVECS = 8192;
        /// Maximum size of all elements of a FIFO together, in bytes.
        ZX_FIFO_MAX_SIZE_BYTES = 4096;
        /// log2 of the smallest page.
        ZX_MIN_PAGE_SHIFT = 12;
        /// log2 of the largest page.
        ZX_MAX_PAGE_SHIFT = 21;
}
