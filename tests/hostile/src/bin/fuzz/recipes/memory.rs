//! Memory: pagers, mappings, ranges, and large VMOs that are hardly committed.

use super::{Any, Buffer, Handle, Is, Long, Recipe, To, Word, bytes, record};
use crate::code::{LOAD, STORE};
use crate::grammar::NamedHandle;

/// The slot of the VMO that [`Recipe::memory`] creates.
pub const VMO: u64 = 12;
const PAGED: u64 = 13;
const CHILD: u64 = 14;
const REGION: u64 = 15;
pub const ADDRESS: u64 = 16;
const CLOCK: u64 = 17;
const OTHER: u64 = 18;
const STREAM: u64 = 19;

pub const PAGE: u64 = 4096;
/// Pages in most of what is created here.
const PAGES: u64 = 8;
/// Bytes in the largest VMO that a program can map; the machine has less memory.
const SPARSE: u64 = 1 << 40;

/// Lays out the target call if it is one of these.
pub fn lay(recipe: &mut Recipe<'_>) -> bool {
    let vmar = Word::NamedHandle(NamedHandle::Vmar);
    let pager = Word::NamedHandle(NamedHandle::Pager);
    match recipe.target() {
        "vmo_set_size" => {
            recipe.call("vmo_create", &[Is(PAGES * PAGE), Is(2), To(VMO)]);
            let size = recipe.page();
            recipe.call("vmo_set_size", &[Handle(VMO), size]);
        }
        target @ ("stream_readv" | "stream_readv_at" | "stream_writev" | "stream_writev_at") => {
            recipe.call("vmo_create", &[Is(PAGES * PAGE), Is(2), To(VMO)]);
            recipe.call("stream_create", &[Is(3), Handle(VMO), Is(0), To(STREAM)]);
            let fields = [("buffer", recipe.buffer()), ("capacity", recipe.below(3000))];
            let part = || bytes(&record("zx_iovec_t", &fields));
            recipe.call("stream_writev", &[Handle(STREAM), Is(0), part(), Is(1)]);
            if target.ends_with("_at") {
                let place = recipe.page();
                recipe.call(target, &[Handle(STREAM), Is(0), place, part(), Is(1)]);
            } else if target == "stream_readv" {
                recipe.call(target, &[Handle(STREAM), Is(0), part(), Is(1)]);
            }
        }
        "vmo_replace_as_executable" => {
            recipe.memory();
            let by = if recipe.one_in(2) { Word::NamedHandle(NamedHandle::Vmex) } else { Is(0) };
            recipe.call("vmo_replace_as_executable", &[Handle(VMO), by, To(VMO)]);
        }
        "vmo_transfer_data" => {
            recipe.memory();
            recipe.call("vmo_create", &[Is(PAGES * PAGE), Is(0), To(OTHER)]);
            let (from, to) = (recipe.page(), recipe.page());
            recipe.call("vmo_transfer_data", &[Handle(OTHER), Is(0), to, Is(PAGE), Handle(VMO), from]);
        }
        "vmar_map" => {
            recipe.memory();
            if recipe.one_in(4) {
                recipe.sparse();
            }
            let options = Is(1 | recipe.below(2) << 1);
            recipe.call("vmar_map", &[vmar, options, Is(0), Handle(VMO), Is(0), Is(PAGES * PAGE), To(ADDRESS)]);
        }
        target @ ("vmar_unmap" | "vmar_protect") => {
            recipe.mapped();
            let len = Is((1 + recipe.below(PAGES)) * PAGE);
            if target == "vmar_unmap" {
                recipe.call(target, &[vmar, Long(ADDRESS), len]);
            } else {
                let options = Is(recipe.below(2) | 1);
                recipe.call(target, &[vmar, options, Long(ADDRESS), len]);
            }
        }
        "vmar_op_range" => {
            recipe.mapped();
            let op = Is([1, 2, 3, 10, 12, 13, 14][recipe.below(7) as usize]);
            recipe.call("vmar_op_range", &[vmar, op, Long(ADDRESS), Is(PAGES * PAGE), Is(0), Is(0)]);
        }
        "vmar_destroy" => {
            recipe.call("vmar_allocate", &[vmar, Is(7 << 6), Is(0), Is(64 * PAGE), To(REGION), To(ADDRESS)]);
            recipe.memory();
            recipe.call("vmar_map", &[Handle(REGION), Is(3), Is(0), Handle(VMO), Is(0), Is(PAGES * PAGE), Any]);
            recipe.call("vmar_destroy", &[Handle(REGION)]);
        }
        "vmar_unmap_handle_close_thread_exit" => {
            recipe.mapped();
            recipe.call("vmar_unmap_handle_close_thread_exit", &[vmar, Long(ADDRESS), Is(PAGES * PAGE), Handle(VMO)]);
        }
        target @ ("vmar_map_clock" | "clock_read_mapped" | "clock_get_details_mapped") => {
            recipe.call("clock_create", &[Is(abi::ZX_CLOCK_OPT_MAPPABLE), Is(0), To(CLOCK)]);
            recipe.call("vmar_map_clock", &[vmar, Is(1), Is(0), Handle(CLOCK), Is(PAGE), To(ADDRESS)]);
            match target {
                "clock_read_mapped" => recipe.call(target, &[Long(ADDRESS), Buffer]),
                "clock_get_details_mapped" => recipe.call(target, &[Long(ADDRESS), Is(1 << 58), Buffer]),
                _ => {}
            }
        }
        "pager_supply_pages" => {
            recipe.paged();
            recipe.supply();
        }
        "pager_op_range" => {
            recipe.paged();
            recipe.supply();
            let op = 1 + recipe.below(4);
            // Only a failure has data: its status.
            let data = if op == 1 { i64::from(abi::Status::IO.0) as u64 } else { 0 };
            let place = recipe.page();
            recipe.call("pager_op_range", &[pager, Is(op), Handle(PAGED), place, Is(PAGE), Is(data)]);
        }
        "pager_detach_vmo" => {
            recipe.paged();
            recipe.call("pager_detach_vmo", &[pager, Handle(PAGED)]);
        }
        "pager_query_dirty_ranges" => {
            recipe.paged();
            recipe.supply();
            recipe.call("vmo_write", &[Handle(PAGED), Buffer, Is(0), Is(2 * PAGE)]);
            let len = Is(PAGES * PAGE);
            recipe.call("pager_query_dirty_ranges", &[pager, Handle(PAGED), Is(0), len, Buffer, Is(256)]);
        }
        "pager_query_vmo_stats" => {
            recipe.paged();
            let options = Is(recipe.below(2));
            recipe.call("pager_query_vmo_stats", &[pager, Handle(PAGED), options, Buffer, Is(256)]);
        }
        "vmo_read" if recipe.one_in(8) => {
            // No pages are supplied: the reader waits until it is fetched, and the request can be read.
            recipe.paged();
            recipe.call("vmo_read", &[Handle(PAGED), Buffer, Is(0), Is(64)]);
            let deadline = recipe.soon();
            recipe.call("port_wait", &[Word::NamedHandle(NamedHandle::Port), deadline, Buffer]);
        }
        "vmo_create_child" => {
            recipe.memory();
            let options = Is([1, 4, 8, 16, 64][recipe.below(5) as usize]);
            let (place, len) = (recipe.page(), Is(PAGE));
            recipe.call("vmo_create_child", &[Handle(VMO), options, place, len, To(CHILD)]);
        }
        "vproc_map" => {
            recipe.memory();
            if recipe.one_in(2) {
                let options = Is((abi::HAFNON_VM_PAGE_TABLE | abi::ZX_VM_SPECIFIC).into());
                let (offset, len) = (Is(0x3000_0000 - 0x20_0000 + PAGE * recipe.below(2)), Is(PAGE * recipe.below(8)));
                recipe.call("vmar_map", &[vmar.clone(), options, offset, Handle(VMO), Is(0), len, To(ADDRESS)]);
            }
            let fields = [("address", 0x3000_0000 + PAGE * recipe.below(8)), ("len", 2 * PAGE), ("options", 3)];
            let runs = bytes(&record("hafnon_vproc_run_t", &fields));
            recipe.call("vproc_map", &[vmar, Handle(VMO), runs, Is(1)]);
        }
        _ => return false,
    }
    true
}

impl Recipe<'_> {
    /// Creates a VMO.
    pub fn memory(&mut self) {
        let options = Is(2 * self.below(2));
        self.call("vmo_create", &[Is(PAGES * PAGE), options, To(VMO)]);
        let op = if self.one_in(2) { 1 } else { 10 };
        self.call("vmo_op_range", &[Handle(VMO), Is(op), Is(0), Is(PAGES * PAGE), Is(0), Is(0)]);
    }

    /// Creates a large VMO, maps it, and reads and writes it here and there.
    fn sparse(&mut self) {
        let vmar = Word::NamedHandle(NamedHandle::Vmar);
        self.call("vmo_create", &[Is(SPARSE), Is(0), To(OTHER)]);
        self.call("vmar_map", &[vmar.clone(), Is(3), Is(0), Handle(OTHER), Is(0), Is(SPARSE), To(ADDRESS)]);
        let step = PAGE << self.below(24);
        let count = 1 + self.below(40);
        self.own_with(LOAD, ADDRESS, [0, count, step, 0]);
        let count = 1 + self.below(8);
        self.own_with(STORE, ADDRESS, [0, count, step, 0]);
        let place = Is(step * self.below(8));
        self.call("vmo_op_range", &[Handle(OTHER), Is(2), place, Is(64 * step), Is(0), Is(0)]);
        if !self.one_in(4) {
            self.call("vmar_unmap", &[vmar, Long(ADDRESS), Is(SPARSE)]);
        }
        self.call("handle_close", &[Handle(OTHER)]);
    }

    /// Creates and maps a VMO.
    fn mapped(&mut self) {
        self.memory();
        let vmar = Word::NamedHandle(NamedHandle::Vmar);
        self.call("vmar_map", &[vmar, Is(3), Is(0), Handle(VMO), Is(0), Is(PAGES * PAGE), To(ADDRESS)]);
    }

    /// Creates a pager's VMO.
    fn paged(&mut self) {
        let options = Is([0, 2, 8][self.below(3) as usize]);
        let (pager, port) = (Word::NamedHandle(NamedHandle::Pager), Word::NamedHandle(NamedHandle::Port));
        self.call("pager_create_vmo", &[pager, options, port, Is(5), Is(PAGES * PAGE), To(PAGED)]);
    }

    /// Supplies its pages.
    fn supply(&mut self) {
        self.call("vmo_create", &[Is(PAGES * PAGE), Is(0), To(OTHER)]);
        self.call("vmo_op_range", &[Handle(OTHER), Is(1), Is(0), Is(PAGES * PAGE), Is(0), Is(0)]);
        let (pager, len) = (Word::NamedHandle(NamedHandle::Pager), Is(PAGES * PAGE));
        self.call("pager_supply_pages", &[pager, Handle(PAGED), Is(0), len, Handle(OTHER), Is(0)]);
    }

    /// An offset in it.
    fn page(&mut self) -> Word {
        Is(PAGE * self.below(PAGES))
    }
}
