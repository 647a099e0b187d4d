//! IPC buffers that reach beyond their page.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use sel4::bootinfo::INIT_VSPACE;
use sel4::{CPtr, Caching, Endpoint, Message, MessageInfo, Notification, ObjectType, Page, Rights};

use crate::threads::{HIGH, LOW, Plan, let_run};
use crate::world::{Found, PAGE, WATCH, World, expect, is_full_of};

/// Address of the buffer. Nothing is mapped there.
const BUFFER: u64 = 0x3000_0000;

static ENDPOINT: AtomicU64 = AtomicU64::new(0);

/// Two adjacent pages of memory: the buffer's, and one that is watched.
fn pages(world: &mut World) -> Page {
    let both = world.piece(13);
    let [page, next] = [0, 1].map(|_| world.make_of(both, ObjectType::Page).expect("a page"));
    let mapped = Page(next).map(INIT_VSPACE, WATCH, Rights::READ_WRITE, Caching::WriteBack);
    mapped.expect("a page");
    Page(page)
}

/// Addresses at which a buffer reaches beyond its page.
fn reaching() -> impl Iterator<Item = u64> {
    (1..PAGE / 8).map(|word| BUFFER + word * 8).filter(|address| address % 1024 != 0)
}

extern "C" fn receive(_: u64) -> ! {
    loop {
        Endpoint(CPtr(ENDPOINT.load(SeqCst))).recv();
    }
}

/// A long message to a thread whose buffer ends in the next page.
pub fn buffer(world: &mut World) -> Found {
    let page = pages(world);
    let endpoint = world.make(ObjectType::Endpoint);
    ENDPOINT.store(endpoint.0, SeqCst);
    let thread = Plan { priority: HIGH, ..Plan::new(INIT_VSPACE, receive, 0) }.make(world);
    thread.resume().map_err(|_| "no thread")?;
    let_run(1);
    for address in reaching() {
        if thread.set_ipc_buffer(address, page).is_ok() {
            for word in 4..120 {
                sel4::ipc::set_message_word(word, !0);
            }
            Endpoint(endpoint).send(Message { info: MessageInfo::new(0, 120), mr: [!0; 4] });
            expect(is_full_of(WATCH, 0), "a message is written to the next page of memory")?;
            expect(address % PAGE <= PAGE - 1024, "a buffer reaches beyond its page")?;
        }
    }
    thread.set_ipc_buffer(BUFFER + PAGE - 1024, page).map_err(|_| "a buffer at the end of its page is refused")
}

extern "C" fn spin(_: u64) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// Timer ticks that find such a thread running. The kernel may count them in the buffer.
pub fn tick(world: &mut World) -> Found {
    let page = pages(world);
    let thread = Plan { priority: LOW, ..Plan::new(INIT_VSPACE, spin, 0) }.make(world);
    let notification = Notification(world.make(ObjectType::Notification));
    thread.bind_notification(notification).map_err(|_| "no notification")?;
    thread.resume().map_err(|_| "no thread")?;
    for address in [BUFFER + PAGE - 512, BUFFER + PAGE - 8, BUFFER + PAGE - 968] {
        if thread.set_ipc_buffer(address, page).is_ok() {
            let_run(3);
            expect(is_full_of(WATCH, 0), "a tick is written to the next page of memory")?;
        }
    }
    Ok(())
}
