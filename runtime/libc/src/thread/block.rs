//! The memory of one thread.
//!
//! ```text
//! guard | stack | guard | unsafe stack | thread-locals | Thread
//!         grows down      grows down                     ^ thread pointer
//! ```
//! The guards are not mapped: a stack overflow faults instead of corrupting other memory. The whole block is one VMAR
//! below the root VMAR and one VMO, which is committed when it is touched. A few blocks of the default size are cached
//! for new threads, because creating one takes six system calls.

use super::{Start, Thread};
use crate::c;
use crate::loader;
use crate::lock::Lock;
use crate::sys::{self, Handle, PAGE_SIZE, Status};
use crate::system::{check, root_vmar};
use core::sync::atomic::{AtomicU32, Ordering};

/// The memory of a thread. Addresses and sizes are multiples of the page size.
#[derive(Clone, Copy)]
pub struct Block {
    /// The VMAR; destroying it unmaps everything.
    region: Handle,
    /// Lowest address of the stack, above its guard.
    pub stack: usize,
    /// Size in bytes of the stack, and of the unsafe stack.
    pub stack_size: usize,
    /// Size in bytes of the unmapped guard below each stack.
    pub guard_size: usize,
    /// Size in bytes of the part above the unsafe stack.
    locals_size: usize,
}

/// The number of a new thread. The C half requires 1 to 2^30 - 1; then the numbers start again.
fn next_number() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) % 0x3fff_ffff + 1
}

/// Limit on the cached blocks.
const KEPT: usize = 32;
static CACHE: Lock<([Option<Block>; KEPT], usize)> = Lock::new(([None; KEPT], 0));

impl Block {
    /// The address after the stack's highest byte.
    pub fn stack_top(&self) -> usize {
        self.stack + self.stack_size
    }

    fn locals(&self) -> usize {
        self.stack_top() + self.guard_size + self.stack_size
    }

    /// Allocates a block with stacks of `stack_size` bytes and guards of at least `guard_size`, and prepares its
    /// thread: initialises the thread-locals, and the structure except for the function to run.
    pub fn make_thread(stack_size: usize, guard_size: usize) -> Result<*mut Thread, Status> {
        let pages = |size: usize| size.checked_next_multiple_of(PAGE_SIZE).ok_or(sys::ERR_NO_MEMORY);
        let stack_size = pages(stack_size)?;
        let guard_size = pages(guard_size.max(PAGE_SIZE))?;
        let tls = loader::static_tls();
        let align = tls.align.max(64);
        let locals_size = (tls.size + align + size_of::<Thread>()).next_multiple_of(PAGE_SIZE);
        let (block, fresh) = match take_kept(stack_size, guard_size, locals_size) {
            Some(block) => (block, false),
            None => (map(stack_size, guard_size, locals_size)?, true),
        };
        let end = block.locals() + locals_size;
        let pointer = (end - size_of::<Thread>()) & !(align - 1);
        if !fresh {
            // SAFETY: the block's own memory, which nothing uses now.
            unsafe { core::ptr::write_bytes(block.locals() as *mut u8, 0, end - block.locals()) };
        }
        loader::init_static_tls(pointer);
        let thread = pointer as *mut Thread;
        // SAFETY: there is room for the structure, zeroed; this sets all fields for which zero is not valid.
        unsafe {
            (&raw mut (*thread).this).write(thread);
            (&raw mut (*thread).guard).write(super::create::stack_guard());
            (&raw mut (*thread).unsafe_stack).write(block.locals());
            (&raw mut (*thread).number).write(next_number());
            c::__c_thread_init(thread.cast());
            (&raw mut (*thread).start).write(Start::Nothing);
            (&raw mut (*thread).block).write(block);
            (&raw mut (*thread).destructors).write(Default::default());
        }
        Ok(thread)
    }

    /// Frees the memory. No thread may run on it or use it.
    pub fn free(self) {
        {
            let mut cache = CACHE.lock();
            let (kept, count) = &mut *cache;
            if self.stack_size == super::attr::STACK_DEFAULT && self.guard_size == PAGE_SIZE && *count < KEPT {
                kept[*count] = Some(self);
                *count += 1;
                return;
            }
        }
        destroy(self.region);
    }
}

fn destroy(region: Handle) {
    // SAFETY: unmaps only the block's memory, which nothing uses.
    unsafe {
        sys::zx_vmar_destroy(region);
        sys::zx_handle_close(region);
    }
}

fn take_kept(stack_size: usize, guard_size: usize, locals_size: usize) -> Option<Block> {
    let mut cache = CACHE.lock();
    let (kept, count) = &mut *cache;
    let last = count.checked_sub(1)?;
    let wanted = (stack_size, guard_size, locals_size);
    let block = kept[last].filter(|block| (block.stack_size, block.guard_size, block.locals_size) == wanted)?;
    *count = last;
    Some(block)
}

fn map(stack_size: usize, guard_size: usize, locals_size: usize) -> Result<Block, Status> {
    let upper = stack_size.checked_add(locals_size).ok_or(sys::ERR_NO_MEMORY)?;
    let used = stack_size.checked_add(upper).ok_or(sys::ERR_NO_MEMORY)?;
    let total = guard_size.checked_mul(2).and_then(|guards| used.checked_add(guards)).ok_or(sys::ERR_NO_MEMORY)?;
    let rights = sys::VM_CAN_MAP_READ | sys::VM_CAN_MAP_WRITE | sys::VM_CAN_MAP_SPECIFIC;
    let (mut region, mut base, mut vmo) = (sys::HANDLE_INVALID, 0, sys::HANDLE_INVALID);
    // SAFETY: there is room for the results.
    check(unsafe { sys::zx_vmar_allocate(root_vmar(), rights, 0, total, &mut region, &mut base) })?;
    let map = |offset: usize, vmo: Handle, from: usize, size: usize| {
        let options = sys::VM_PERM_READ | sys::VM_PERM_WRITE | sys::VM_SPECIFIC;
        let mut address = 0;
        // SAFETY: maps into the new VMAR.
        check(unsafe { sys::zx_vmar_map(region, options, offset, vmo, from as u64, size, &mut address) })
    };
    // SAFETY: there is room for the result.
    let made = check(unsafe { sys::zx_vmo_create(used as u64, 0, &mut vmo) }).and_then(|()| {
        let name = c"thread";
        // SAFETY: a valid name.
        unsafe { sys::zx_object_set_property(vmo, sys::PROP_NAME, name.as_ptr().cast(), name.count_bytes()) };
        map(guard_size, vmo, 0, stack_size)?;
        map(2 * guard_size + stack_size, vmo, stack_size, upper)
    });
    if vmo != sys::HANDLE_INVALID {
        // SAFETY: the mappings keep the VMO alive.
        unsafe { sys::zx_handle_close(vmo) };
    }
    if let Err(status) = made {
        destroy(region);
        return Err(status);
    }
    Ok(Block { region, stack: base + guard_size, stack_size, guard_size, locals_size })
}
