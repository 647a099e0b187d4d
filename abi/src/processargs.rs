//! The message with which a process starts.
//!
//! It arrives through the bootstrap channel: a header, a word for each handle that tells the handle's purpose, and
//! three lists of NUL-terminated strings.

consts! { TABLE;
    [u32]
        /// First word of the message.
        ZX_PROCARGS_PROTOCOL = 0x4150_585d;
        /// Second word of the message.
        ZX_PROCARGS_VERSION = 0x1000;
        /// The process itself.
        PA_PROC_SELF = 0x01;
        /// Its first thread.
        PA_THREAD_SELF = 0x02;
        /// The job for its child processes.
        PA_JOB_DEFAULT = 0x03;
        /// Its root VMAR.
        PA_VMAR_ROOT = 0x04;
        /// The VMAR in which its image was loaded.
        PA_VMAR_LOADED = 0x05;
        /// The loader service.
        PA_LDSVC_LOADER = 0x10;
        /// The vDSO's image.
        PA_VMO_VDSO = 0x11;
        /// The first thread's stack.
        PA_VMO_STACK = 0x13;
        /// The program's file.
        PA_VMO_EXECUTABLE = 0x14;
        /// The boot loader's data.
        PA_VMO_BOOTDATA = 0x1a;
        /// The BOOTFS image.
        PA_VMO_BOOTFS = 0x1b;
        /// A file of the system.
        PA_VMO_KERNEL_FILE = 0x1c;
        /// A component's configuration.
        PA_VMO_COMPONENT_CONFIG = 0x1d;
        /// A directory of its namespace; the argument is the index of its name.
        PA_NS_DIR = 0x20;
        /// A file descriptor; the argument is its number.
        PA_FD = 0x30;
        /// The channel on which it is asked to stop.
        PA_LIFECYCLE = 0x3a;
        /// The channel on which it serves its outgoing directory.
        PA_DIRECTORY_REQUEST = 0x3b;
        /// The dictionary that an earlier run left.
        PA_ESCROWED_DICTIONARY = 0x3c;
        /// The channel for its log.
        PA_LOG_SINK = 0x3d;
        /// A resource.
        PA_RESOURCE = 0x3f;
        /// A clock with the time of day.
        PA_CLOCK_UTC = 0x40;
        /// The resource of this kind.
        PA_MMIO_RESOURCE = 0x50;
        /// The resource of this kind.
        PA_IRQ_RESOURCE = 0x51;
        /// The resource of this kind.
        PA_IOPORT_RESOURCE = 0x52;
        /// The resource of this kind.
        PA_SMC_RESOURCE = 0x53;
        /// The resource of this kind.
        PA_SYSTEM_RESOURCE = 0x54;
        /// For agreements between two programs.
        PA_USER0 = 0xf0;
        /// For agreements between two programs.
        PA_USER1 = 0xf1;
        /// For agreements between two programs.
        PA_USER2 = 0xf2;
}

/// The word for a handle of type `kind` (`PA_*`) with argument `arg`.
#[allow(non_snake_case, reason = "Zircon's name")]
pub const fn PA_HND(kind: u32, arg: u32) -> u32 {
    kind & 0xff | (arg & 0xffff) << 16
}

/// The type in such a word.
#[allow(non_snake_case, reason = "Zircon's name")]
pub const fn PA_HND_TYPE(info: u32) -> u32 {
    info & 0xff
}

/// The argument in such a word.
#[allow(non_snake_case, reason = "Zircon's name")]
pub const fn PA_HND_ARG(info: u32) -> u32 {
    info >> 16 & 0xffff
}

structs! { STRUCTS;
    #[doc = "Head of the message. Offsets count from its start."]
    struct zx_proc_args_t {
        /// `ZX_PROCARGS_PROTOCOL`
        protocol: u32,
        /// `ZX_PROCARGS_VERSION`
        version: u32,
        /// Offset of the handles' words.
        handle_info_off: u32,
        /// Offset of the arguments.
        args_off: u32,
        /// Number of arguments.
        args_num: u32,
        /// Offset of the environment.
        environ_off: u32,
        /// Number of environment strings.
        environ_num: u32,
        /// Offset of the names that `PA_NS_DIR` refers to.
        names_off: u32,
        /// Number of names.
        names_num: u32,
    }
}
