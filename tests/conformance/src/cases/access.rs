//! Invalid addresses and numbers: the system refuses them and continues. Checks that are the same for every call are in
//! `sweep/mod.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use abi::Status;
use zx::{AsHandleRef, Channel, Event, Handle, HandleRef, Socket, Vmo};

use super::{cases, raw, root_resource};
use crate::check::{Outcome, ensure, equal, fails, gives};
use crate::test_process::{self, TestProcess};

cases! {
    "access.channel_read.handles_nowhere" => channel_read_handles_nowhere,
    "access.channel_write.kernel_memory" => channel_write_kernel_memory,
    "access.channel_write.not_mapped" => channel_write_not_mapped,
    "access.channel_write.mapped" => channel_write_mapped,
    "access.channel_write.across_the_end" => channel_write_across_the_end,
    "access.channel_write.unreadable" => channel_write_unreadable,
    "access.channel_read.read_only" => channel_read_read_only,
    "access.pci_cfg_pio_rw.bad_pointer" => pci_cfg_pio_rw_bad_pointer,
    "access.call.unknown_number" => call_unknown_number,
    "access.call.past_the_vdso" => call_past_the_vdso,
    "access.buffers.unmapped_meanwhile" => buffers_unmapped_meanwhile,
}

const KERNEL: [u64; 4] = [0xffff_8000_0000_0000, 0xffff_ff80_0000_0000, 0xffff_ffff_8000_0000, 0xffff_ffff_ffff_f000];

/// A page with an unmapped page behind it.
struct Edge {
    page: usize,
    region: zx::Vmar,
}

impl Edge {
    fn new(permissions: u32) -> zx::Result<Self> {
        let root = zx::startup::vmar_root_self();
        let can = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE | abi::ZX_VM_CAN_MAP_SPECIFIC;
        // A region of two pages, of which the second stays unmapped.
        let (region, base) = root.allocate(can, 0, 8192)?;
        let vmo = Vmo::create(4096, 0)?;
        region.map(permissions | abi::ZX_VM_SPECIFIC, 0, &vmo, 0, 4096)?;
        Ok(Self { page: base, region })
    }

    fn unmap(&self) -> zx::Result<()> {
        self.region.unmap(self.page, 4096)
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        let _ = self.unmap();
    }
}

const READ: u32 = abi::ZX_VM_PERM_READ;
const WRITE: u32 = abi::ZX_VM_PERM_WRITE;

fn channel_read_handles_nowhere() -> Outcome {
    let (a, b) = Channel::create()?;
    b.write(b"x", [Event::create()?.into_handle()])?;
    let mut byte = 0_u8;
    for bad in KERNEL.into_iter().chain([0, 0x1000]) {
        let status = raw!(zx_channel_read, a.raw_handle(), 0, &raw mut byte, bad, 1, 1, 0, 0);
        gives(status, Status::INVALID_ARGS)?;
    }
    let mut handles = [None];
    a.read(&mut [0], &mut handles).map_err(|(status, _)| status)?;
    ensure(handles[0].is_some(), "the handle is lost")
}

fn channel_write_kernel_memory() -> Outcome {
    let (a, b) = Channel::create()?;
    for bad in KERNEL {
        gives(raw!(zx_channel_write, a.raw_handle(), 0, bad, 1, 0, 0), Status::INVALID_ARGS)?;
        gives(raw!(zx_channel_write, a.raw_handle(), 0, bad, 4096, 0, 0), Status::INVALID_ARGS)?;
        // Ranges that begin below it and end in it.
        gives(raw!(zx_channel_write, a.raw_handle(), 0, bad - 1, 5, 0, 0), Status::INVALID_ARGS)?;
    }
    gives(raw!(zx_channel_write, a.raw_handle(), 0, (1_u64 << 47) - 1, 5, 0, 0), Status::INVALID_ARGS)?;
    fails(b.read(&mut [0; 8], &mut []).map_err(|(status, _)| status), Status::SHOULD_WAIT)
}

fn channel_write_not_mapped() -> Outcome {
    let (a, b) = Channel::create()?;
    let edge = Edge::new(READ | WRITE)?;
    gives(raw!(zx_channel_write, a.raw_handle(), 0, edge.page + 4096, 1, 0, 0), Status::INVALID_ARGS)?;
    edge.unmap()?;
    gives(raw!(zx_channel_write, a.raw_handle(), 0, edge.page, 1, 0, 0), Status::INVALID_ARGS)?;
    fails(b.read(&mut [0; 8], &mut []).map_err(|(status, _)| status), Status::SHOULD_WAIT)
}

fn channel_write_mapped() -> Outcome {
    let (a, b) = Channel::create()?;
    let edge = Edge::new(READ | WRITE)?;
    zx::probe::write(edge.page + 4095, 0x5a);
    gives(raw!(zx_channel_write, a.raw_handle(), 0, edge.page + 4092, 4, 0, 0), Status::OK)?;
    let mut bytes = [9; 4];
    b.read(&mut bytes, &mut []).map_err(|(status, _)| status)?;
    equal(bytes, [0, 0, 0, 0x5a])
}

fn channel_write_across_the_end() -> Outcome {
    let (a, b) = Channel::create()?;
    let edge = Edge::new(READ | WRITE)?;
    gives(raw!(zx_channel_write, a.raw_handle(), 0, edge.page + 4093, 4, 0, 0), Status::INVALID_ARGS)?;
    fails(b.read(&mut [0; 8], &mut []).map_err(|(status, _)| status), Status::SHOULD_WAIT)?;
    // The same for writes, and for structures.
    b.write(b"four", [])?;
    let status = raw!(zx_channel_read, a.raw_handle(), 0, edge.page + 4093, 0, 4, 0, 0, 0);
    gives(status, Status::INVALID_ARGS)?;
    let status = raw!(zx_channel_read, a.raw_handle(), 0, edge.page + 4092, 0, 4, 0, 0, 0);
    gives(status, Status::OK)?;
    gives(raw!(zx_event_create, 0, edge.page + 4094), Status::INVALID_ARGS)?;
    gives(raw!(zx_event_create, 0, edge.page + 4092), Status::OK)?;
    let bytes = [0, 1, 2, 3].map(|place| zx::probe::read(edge.page + 4092 + place));
    drop(Handle::from_raw(u32::from_le_bytes(bytes)).ok_or("there is no handle")?);
    Ok(())
}

fn channel_write_unreadable() -> Outcome {
    let (a, _b) = Channel::create()?;
    let edge = Edge::new(0)?;
    gives(raw!(zx_channel_write, a.raw_handle(), 0, edge.page, 4, 0, 0), Status::INVALID_ARGS)
}

fn channel_read_read_only() -> Outcome {
    let (a, b) = Channel::create()?;
    b.write(b"four", [])?;
    let edge = Edge::new(READ)?;
    gives(raw!(zx_channel_read, a.raw_handle(), 0, edge.page, 0, 4, 0, 0, 0), Status::INVALID_ARGS)?;
    gives(raw!(zx_channel_read, a.raw_handle(), 0, 0, 0, 0, 0, edge.page, 0), Status::INVALID_ARGS)?;
    // Code is read-only memory as well.
    let code = channel_read_read_only as fn() -> Outcome as usize;
    gives(raw!(zx_channel_read, a.raw_handle(), 0, code, 0, 4, 0, 0, 0), Status::INVALID_ARGS)?;
    equal(zx::probe::read(edge.page), 0)?;
    equal(a.read(&mut [0; 4], &mut []).map_err(|(status, _)| status)?.bytes, 4)
}

fn pci_cfg_pio_rw_bad_pointer() -> Outcome {
    let root = root_resource()?.raw_handle();
    for bad in KERNEL.into_iter().chain([0, 0x1000]) {
        for (width, write) in [(32, 0), (32, 1), (8, 0), (0, 1)] {
            let status = raw!(zx_pci_cfg_pio_rw, root, 0, 0, 0, 0, bad, width, write);
            gives(status, Status::INVALID_ARGS)?;
        }
    }
    Ok(())
}

fn call_unknown_number() -> Outcome {
    // A process that makes the call with this number without the vDSO and ends with the result as its return code.
    for number in [0_u32, 250, 10_000, 0xf_ffff] {
        let code = [test_process::call(number), test_process::call(abi::nr::PROCESS_EXIT)].concat();
        let tiny = TestProcess::new(&code)?;
        tiny.start(None, 0)?;
        equal(Status(tiny.end()? as i32), Status::BAD_SYSCALL)?;
    }
    Ok(())
}

fn call_past_the_vdso() -> Outcome {
    // A `syscall` instruction with any other number raises an exception: mov rax, NUMBER; mov rdx, 99; syscall.
    for number in [10_000, 0x8000_0000, 0xff00_ff00_0000_0000, 0xff00_ff00_0000_0010_u64] {
        let mut code = vec![0x48, 0xb8];
        code.extend(number.to_le_bytes());
        code.extend([0x48, 0xc7, 0xc2, 99, 0, 0, 0, 0x0f, 0x05]);
        test_process::dies(&code)?;
    }
    Ok(())
}

fn buffers_unmapped_meanwhile() -> Outcome {
    // One thread maps and unmaps a page while calls of another thread write and read it: each call either succeeds or
    // refuses the address, and no message is lost.
    let (a, b) = Channel::create()?;
    let (s, t) = Socket::create(0)?;
    let root = zx::startup::vmar_root_self();
    let can = abi::ZX_VM_CAN_MAP_READ | abi::ZX_VM_CAN_MAP_WRITE | abi::ZX_VM_CAN_MAP_SPECIFIC;
    let (region, base) = root.allocate(can, 0, 8192)?;
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    let mapper = thread::spawn(move || {
        let vmo = Vmo::create(4096, 0)?;
        while !told.load(Ordering::SeqCst) {
            region.map(READ | WRITE | abi::ZX_VM_SPECIFIC, 0, &vmo, 0, 4096)?;
            thread::yield_now();
            region.unmap(base, 4096)?;
        }
        Ok::<_, Status>(())
    });
    let (mut done, mut refused) = (0, 0);
    let mut result: Outcome = Ok(());
    for round in 0..3000_u32 {
        let event = Event::create()?.into_handle();
        b.write(&round.to_le_bytes(), [event])?;
        t.write(b"byte")?;
        let mut handle = 0_u32;
        let status = raw!(zx_channel_read, a.raw_handle(), 0, base, &raw mut handle, 4, 1, 0, 0);
        match status {
            Status::OK => done += 1,
            Status::INVALID_ARGS => {
                refused += 1;
                // The message is still there, with its handle.
                let (mut bytes, mut handles) = ([0; 4], [None]);
                let size = a.read(&mut bytes, &mut handles).map_err(|(status, _)| status)?;
                equal((size.bytes, u32::from_le_bytes(bytes)), (4, round))?;
                handle = handles[0].take().ok_or("the handle is lost")?.into_raw();
            }
            status => result = Err(format!("a read gave {status}").into()),
        }
        HandleRef::from_raw(handle).check_valid()?;
        drop(Handle::from_raw(handle));
        let mut got = 0_usize;
        match raw!(zx_socket_read, s.raw_handle(), 0, base + 4000, 4, &raw mut got) {
            Status::OK => equal(got, 4)?,
            Status::INVALID_ARGS => equal(s.read(&mut [0; 8])?, 4)?,
            status => result = Err(format!("a read of a socket gave {status}").into()),
        }
        let status = raw!(zx_channel_write, b.raw_handle(), 0, base, 4096, 0, 0);
        match status {
            Status::OK => equal(a.read(&mut [0; 4096], &mut []).map_err(|(status, _)| status)?.bytes, 4096)?,
            Status::INVALID_ARGS => {}
            status => result = Err(format!("a write gave {status}").into()),
        }
        if result.is_err() {
            break;
        }
        if round % 8 == 0 {
            thread::yield_now();
        }
    }
    stop.store(true, Ordering::SeqCst);
    mapper.join().map_err(|_| "the mapper panicked")??;
    result?;
    ensure(done + refused == 3000, "a round is missing")
}
