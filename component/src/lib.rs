//! Native components: programs directly on seL4 that run beside the instances (`docs/native.md`).
//!
//! A component is a program of the target `x86_64-unknown-none` with one thread. It names its first function, and gets
//! what the system description gives it:
//!
//! ```ignore
//! #![no_std]
//! #![no_main]
//! component::start!(main);
//!
//! fn main(own: component::Own) -> ! {
//!     component::log!("I have {} bytes", own.memory.len());
//!     let mut request = own.endpoint.receive();
//!     loop {
//!         let sum = request.words().iter().fold(0, |sum: u64, word| sum.wrapping_add(*word));
//!         request = request.answer(0, &[sum]);
//!     }
//! }
//! ```
//!
//! The badge identifies the caller ([`Request::from`]); no caller can choose all of it. The contents of a message are
//! not to be trusted. A panic ends in an undefined instruction: the root task reports the component's end and, if the
//! description says so, starts it again with fresh memory.
#![no_std]

mod arch;
#[cfg(feature = "client")]
pub mod client;
mod endpoint;
mod log;

use core::slice;

pub use arch::{counter, die};
pub use component_boot::Badge;
use component_boot::{Facts, MAGIC, layout};
pub use endpoint::{Endpoint, Request, WORDS};
pub use log::write_line;

/// A component's resources.
pub struct Own {
    /// Its endpoint. The names that it offers lead there.
    pub endpoint: Endpoint,
    /// Its memory, zero at the start of each of its lives.
    pub memory: &'static mut [u8],
    /// Counts of [`counter`] per microsecond.
    pub megahertz: u64,
    /// The number of its current life; the first is 1.
    pub life: u64,
}

impl Own {
    /// Takes over what the root task prepared.
    ///
    /// # Safety
    /// Must be called once, by the code that [`start!`] generates, before anything else.
    #[doc(hidden)]
    pub unsafe fn take() -> Own {
        // SAFETY: the root task mapped the buffer there for this program's only thread.
        unsafe { sel4::ipc::init(core::ptr::with_exposed_provenance_mut(layout::IPC_BUFFER as usize)) };
        // SAFETY: the root task mapped the page there, and nothing writes to it.
        let facts = unsafe { &*core::ptr::with_exposed_provenance::<Facts>(layout::FACTS as usize) };
        assert!(facts.magic == MAGIC, "root task and component do not belong together");
        let memory = core::ptr::with_exposed_provenance_mut::<u8>(layout::MEMORY as usize);
        // SAFETY: this many bytes are mapped there for writing, and this is the only reference to them.
        let memory = unsafe { slice::from_raw_parts_mut(memory, facts.memory as usize) };
        Own { endpoint: Endpoint::own(), memory, megahertz: facts.megahertz, life: facts.life }
    }
}

/// Makes a function, `fn(Own) -> !`, the entry of the program.
#[macro_export]
macro_rules! start {
    ($main:path) => {
        const _: () = {
            extern "C" fn start() -> ! {
                let main: fn($crate::Own) -> ! = $main;
                // SAFETY: it is called once, by the only thread, before anything else.
                main(unsafe { $crate::Own::take() })
            }

            $crate::entry!(start);
        };
    };
}

/// Writes a line to the first serial port, with the component's name.
#[macro_export]
macro_rules! log {
    ($($arg:tt)*) => { $crate::write_line(::core::format_args!($($arg)*)) };
}

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    log!("{info}");
    die()
}
