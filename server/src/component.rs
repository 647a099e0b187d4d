//! Makes a native component a client, and creates the data that it receives then (`component_boot::Connection`).

use abi::{
    Rights, Status, ZX_DEFAULT_PROCESS_RIGHTS, ZX_DEFAULT_THREAD_RIGHTS, ZX_DEFAULT_VMAR_RIGHTS, ZX_DEFAULT_VMO_RIGHTS,
};
use component_boot::Connection;
use objects::Kernel;
use objects::arch::{GeneralRegisters, Registers};
use objects::guest::component::ComponentClient;
use objects::machine::{Machine, PAGE, Perm};
use objects::memory::vmar::{MapRequest, Place};
use zerocopy::IntoBytes;

/// Bytes of the VMO for the buffers of the component's calls: a message of maximum size, its handles, and some more.
const ROOM: u64 = 96 << 10;

/// Makes a component a client. On an error, the component is notified.
pub fn join<M: Machine>(kernel: &mut Kernel<M>, component: u8) {
    if let Ok(joined) = kernel.component_joins(component)
        && prepare(kernel, component, &joined).is_err()
    {
        kernel.process_kill(joined.process, 0);
    }
}

fn prepare<M: Machine>(kernel: &mut Kernel<M>, component: u8, joined: &ComponentClient) -> Result<(), Status> {
    let ComponentClient { process, thread, window } = *joined;
    let vmo = kernel.vmo_create(ROOM, false)?;
    // The component needs no handle to this VMO. Handle and VMO last as long as the process.
    kernel.give_new(process, vmo, ZX_DEFAULT_VMO_RIGHTS)?;
    let perm = Perm { read: true, write: true, execute: false };
    let request = MapRequest { vmo, offset: 0, len: ROOM, perm, max: perm, fixed: false };
    let address = kernel.vmar_map(window, Place::Anywhere { align: PAGE, limit: None }, request)?;
    let conversion = kernel.machine.conversion();
    let connection = Connection {
        process: kernel.give(process, process.object(), ZX_DEFAULT_PROCESS_RIGHTS)?,
        thread: kernel.give(process, thread.object(), ZX_DEFAULT_THREAD_RIGHTS)?,
        vmar: kernel.give(process, window.object(), ZX_DEFAULT_VMAR_RIGHTS | Rights::READ | Rights::WRITE)?,
        clients: kernel.component_opens(component)?,
        room: ROOM,
        offset: conversion.offset,
        numerator: conversion.numerator,
        denominator: conversion.denominator,
        per_second: conversion.per_second,
    };
    kernel.vmo_write(vmo, 0, connection.as_bytes())?;
    // The server does not receive this component's faults, so it maps the whole VMO before the component continues.
    let aspace = kernel.objects.get(process)?.aspace.ok_or(Status::BAD_STATE)?;
    for page in 0..ROOM / PAGE {
        kernel.page_fault(aspace, address + page * PAGE, true, false)?;
    }
    kernel.process_begin(process, None)?;
    kernel.thread_start(thread, &Registers::initial(0, 0, [address, 0]))
}
