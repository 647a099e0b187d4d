//! The parts of the machine that attackers get, and the debug log.

use super::{Any, Buffer, Handle, Is, Recipe, To, Word, bytes, record};
use crate::grammar::NamedHandle;

const VMO: u64 = 38;
const PINNED: u64 = 39;
const MSI: u64 = 40;
const INTERRUPT: u64 = 41;
const PORT: u64 = 42;
const LOG: u64 = 43;
const ENDPOINT: u64 = 44;
const SLOT: u64 = 45;

const PAGE: u64 = 4096;
/// The I/O ports of [`NamedHandle::IoPorts`].
const PORTS: u64 = 0x300;
/// The start of a device's capability for message-signalled interrupts.
const CAPABILITY: [u8; 4] = [0x05, 0, 0, 0];

/// Lays out the target call if it is one of these.
pub fn lay(recipe: &mut Recipe<'_>) -> bool {
    match recipe.target() {
        "resource_create" => {
            let (kind, base) = (Is(abi::ZX_RSRC_KIND_IOPORT.into()), Is(PORTS + recipe.below(8)));
            recipe.call(
                "resource_create",
                &[Word::NamedHandle(NamedHandle::IoPorts), kind, base, Is(4), Buffer, Is(4), To(SLOT)],
            );
        }
        target @ ("ioports_request" | "ioports_release") => {
            let first = Is(PORTS + recipe.below(8));
            recipe.call(target, &[Word::NamedHandle(NamedHandle::IoPorts), first, Is(4)]);
        }
        "bti_release_quarantine" => {
            recipe.pinned();
            if recipe.one_in(2) {
                recipe.call("handle_close", &[Handle(PINNED)]);
            }
            recipe.call("bti_release_quarantine", &[Word::NamedHandle(NamedHandle::Bti)]);
        }
        "bti_pin" => recipe.pinned(),
        "pmt_unpin" => {
            recipe.pinned();
            recipe.call("pmt_unpin", &[Handle(PINNED)]);
        }
        "vmo_create_contiguous" => recipe.contiguous(),
        "msi_allocate" => recipe.msi(),
        "msi_create" => {
            recipe.contiguous();
            recipe.call("vmo_write", &[Handle(VMO), bytes(&CAPABILITY), Is(0), Is(4)]);
            recipe.call("vmo_set_cache_policy", &[Handle(VMO), Is(abi::ZX_CACHE_POLICY_UNCACHED_DEVICE.into())]);
            recipe.msi();
            recipe.call("msi_create", &[Handle(MSI), Is(0), Is(0), Handle(VMO), Is(0), To(INTERRUPT)]);
            // There are few interrupts for the whole machine.
            recipe.call("handle_close", &[Handle(INTERRUPT)]);
            recipe.call("handle_close", &[Handle(MSI)]);
        }
        "interrupt_wait" => {
            recipe.interrupt();
            recipe.call("interrupt_trigger", &[Handle(INTERRUPT), Is(0), Is(1)]);
            recipe.call("interrupt_wait", &[Handle(INTERRUPT), Any]);
        }
        target @ ("interrupt_bind" | "interrupt_ack") => {
            recipe.interrupt();
            recipe.call("port_create", &[Is(abi::ZX_PORT_BIND_TO_INTERRUPT.into()), To(PORT)]);
            recipe.call("interrupt_bind", &[Handle(INTERRUPT), Handle(PORT), Is(3), Is(0)]);
            if target == "interrupt_ack" {
                recipe.call("interrupt_trigger", &[Handle(INTERRUPT), Is(0), Is(1)]);
                let deadline = recipe.soon();
                recipe.call("port_wait", &[Handle(PORT), deadline, Buffer]);
                recipe.call("interrupt_ack", &[Handle(INTERRUPT)]);
            }
        }
        "debuglog_create" => recipe.log(),
        "debuglog_read" => {
            recipe.log();
            recipe.call("debuglog_read", &[Handle(LOG), Is(0), Buffer, Is(256)]);
        }
        "debuglog_write" => {
            recipe.log();
            let size = Is(recipe.below(64));
            recipe.call("debuglog_write", &[Handle(LOG), Is(0), Buffer, size]);
        }
        "endpoint_create" => recipe.endpoint(),
        "endpoint_mint" => {
            recipe.endpoint();
            recipe.mint();
        }
        "endpoint_delete" => {
            recipe.endpoint();
            recipe.mint();
            recipe.call("endpoint_delete", &[Word::NamedHandle(NamedHandle::Thread), Handle(SLOT)]);
        }
        "endpoint_send" => {
            recipe.endpoint();
            recipe.mint();
            let message = recipe.message();
            recipe.call("endpoint_send", &[Handle(SLOT), Is(abi::HAFNON_ENDPOINT_NO_WAIT.into()), message]);
        }
        "endpoint_answer" => {
            let message = recipe.message();
            recipe.call("endpoint_answer", &[message]);
        }
        _ => return false,
    }
    true
}

impl Recipe<'_> {
    /// Pins memory for a device.
    fn pinned(&mut self) {
        self.call("vmo_create", &[Is(2 * PAGE), Is(0), To(VMO)]);
        self.call(
            "bti_pin",
            &[Word::NamedHandle(NamedHandle::Bti), Is(3), Handle(VMO), Is(0), Is(2 * PAGE), Buffer, Is(2), To(PINNED)],
        );
    }

    fn contiguous(&mut self) {
        let size = Is(PAGE << self.below(3));
        self.call("vmo_create_contiguous", &[Word::NamedHandle(NamedHandle::Bti), size, Is(0), To(VMO)]);
    }

    fn msi(&mut self) {
        self.call("msi_allocate", &[Word::NamedHandle(NamedHandle::Msi), Is(1), To(MSI)]);
    }

    /// Creates a virtual interrupt.
    fn interrupt(&mut self) {
        self.call("interrupt_create", &[Is(0), Is(0), Is(abi::ZX_INTERRUPT_VIRTUAL.into()), To(INTERRUPT)]);
    }

    fn log(&mut self) {
        let options = Is(abi::ZX_LOG_FLAG_READABLE.into());
        self.call("debuglog_create", &[Word::NamedHandle(NamedHandle::DebugLog), options, To(LOG)]);
    }

    fn endpoint(&mut self) {
        self.call("endpoint_create", &[Word::NamedHandle(NamedHandle::Endpoint), Is(0), To(ENDPOINT)]);
    }

    /// A message to an endpoint.
    fn message(&mut self) -> Word {
        let fields = [("label", self.below(1 << 20)), ("count", self.below(120))];
        bytes(&record("hafnon_endpoint_message_t", &fields))
    }

    /// Puts the endpoint into a slot of the first thread.
    fn mint(&mut self) {
        let options = Is(1 << self.below(2));
        self.call(
            "endpoint_mint",
            &[Handle(ENDPOINT), Word::NamedHandle(NamedHandle::Thread), options, Is(5), To(SLOT)],
        );
    }
}
