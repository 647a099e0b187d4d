//! Every call: the case that makes it as long as possible, or why its length is bounded. And cases for calls of small
//! length.

use abi::{Longest, Support, Via};
use abi::{ZX_IOB_ACCESS_EP0_CAN_MAP_READ, ZX_IOB_ACCESS_EP0_CAN_MEDIATED_WRITE};
use conformance::check::{Case, Outcome, ensure, equal};
use conformance::test_process::OwnJob;
use zx::{
    AsHandleRef, Bti, Channel, Event, Fifo, Handle, Info, Iob, IobDiscipline, IobSharedRegion, Iommu, Job, Rights,
    Socket, Vmo,
};

use super::{LESS, holds_shortly, memory};

/// The cases that a definition names for its longest call exist.
fn every_call() -> Outcome {
    for (case, _) in KNOWN {
        eprintln!("known {case}");
    }
    let known = super::cases();
    let answered =
        |call: &&abi::SyscallInfo| call.via == Via::Server && !matches!(call.support, Support::Unsupported(_));
    let mut calls: Vec<&abi::SyscallInfo> = abi::SYSCALLS.iter().filter(answered).collect();
    calls.sort_unstable_by_key(|call| call.name);
    for call in calls {
        match call.tests().longest {
            Longest::Cases(cases) => {
                for case in cases {
                    let name = format!("holds.{case}");
                    let what = format!("{}: there is no case {name}", call.name);
                    ensure(known.iter().any(|known| known.name == name), &what)?;
                }
                eprintln!("call {} {}", call.name, cases.join(" "));
            }
            Longest::None(why) => eprintln!("call {} - {why}", call.name),
        }
    }
    Ok(())
}

/// The largest message, with as many handles as it can have.
fn channel() -> Outcome {
    let (one, two) = Channel::create()?;
    let bytes = vec![3; abi::ZX_CHANNEL_MAX_MSG_BYTES as usize];
    let events = (0..abi::ZX_CHANNEL_MAX_MSG_HANDLES).map(|_| Event::create().map(Event::into_handle));
    let handles = events.collect::<zx::Result<Vec<Handle>>>()?;
    holds_shortly("channel-write", || Ok(one.write_handles(&bytes, handles)?))?;
    let (mut bytes, mut handles) = (bytes, std::array::from_fn::<_, 64, _>(|_| None));
    holds_shortly("channel-read", || {
        two.read_wait(&mut bytes, &mut handles, zx::MonotonicInstant::INFINITE)?;
        Ok(())
    })
}

fn fifo() -> Outcome {
    let (one, two) = Fifo::create(512, 8)?;
    let mut bytes = vec![3; 4096];
    holds_shortly("fifo-write", || equal(one.write(8, &bytes)?, 512))?;
    holds_shortly("fifo-read", || equal(two.read(8, &mut bytes)?, 512))
}

/// A stream's end filled at once, and a datagram socket with as many datagrams as fit.
fn socket() -> Outcome {
    const ALL: usize = 256 << 10;
    const DATAGRAMS: usize = 16_000;
    let (one, two) = Socket::create(0)?;
    let mut bytes = vec![3; ALL];
    holds_shortly("socket-write", || equal(one.write(&bytes)?, ALL))?;
    holds_shortly("socket-read", || equal(two.read(&mut bytes)?, ALL))?;
    let (one, two) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
    (0..DATAGRAMS).try_for_each(|_| one.write(&[1]).map(drop))?;
    holds_shortly("datagrams-write", || (0..1000).try_for_each(|_| equal(one.write(&[1])?, 1)))?;
    holds_shortly("datagrams-read", || (0..DATAGRAMS).try_for_each(|_| equal(two.read(&mut bytes)?, 1)))?;
    super::ends("datagrams-close", (one, two))
}

/// The most regions, and the largest record, in as many parts as it has bytes.
fn iob() -> Outcome {
    let region = Iob::private_region(ZX_IOB_ACCESS_EP0_CAN_MAP_READ, 4096, IobDiscipline::None);
    let mut made = None;
    holds_shortly("iob-create", || {
        made = Some(Iob::create(&[region; 64])?);
        Ok(())
    })?;
    super::ends("iob-close", made)?;
    let shared = IobSharedRegion::create(4096 + (128 << 10))?;
    let discipline = IobDiscipline::Ring { tag: 1 };
    let region = Iob::shared_region(ZX_IOB_ACCESS_EP0_CAN_MEDIATED_WRITE, &shared, discipline);
    let (one, _two) = Iob::create(&[region])?;
    let bytes = vec![1; 64];
    holds_shortly("iob-write", || Ok(one.writev(0, [bytes.as_slice(); 1000])?))
}

/// A job among many others, and one that does not exist.
fn child() -> Outcome {
    const JOBS: usize = 5000;
    let job = OwnJob::new()?;
    let jobs = (0..JOBS).map(|_| job.create_child()).collect::<zx::Result<Vec<Job>>>()?;
    let last = jobs.last().ok_or("there are jobs")?.koid()?;
    holds_shortly("child", || {
        job.get_child(last, Rights::SAME_RIGHTS)?;
        ensure(job.get_child(last + 1_000_000, Rights::SAME_RIGHTS).is_err(), "there is such a job")
    })
}

/// Much memory for a device, in small pages: the server visits each page.
fn pin() -> Outcome {
    let resource = zx::startup::resource().ok_or("this program was not given the root resource")?;
    let bti = Bti::create(&Iommu::create_stub(&resource)?, 7)?;
    let vmo = memory(LESS, true)?;
    let mut addresses = vec![0; (LESS / 4096) as usize];
    let mut pinned = None;
    holds_shortly("pin", || {
        pinned = Some(bti.pin(abi::ZX_BTI_PERM_READ, &vmo, 0, LESS, &mut addresses)?);
        Ok(())
    })?;
    holds_shortly("unpin", || Ok(pinned.ok_or("it is pinned")?.unpin()?))?;
    Ok(bti.release_quarantine()?)
}

/// As many objects as allowed, none of which has the signal.
fn wait_many() -> Outcome {
    let event = Event::create()?;
    let item =
        abi::zx_wait_item_t { handle: event.raw_handle(), waitfor: abi::Signals::USER_0.bits(), ..Default::default() };
    let mut items = [item; abi::ZX_WAIT_MANY_MAX_ITEMS];
    holds_shortly("wait-many", || {
        let soon = zx::MonotonicInstant::after(zx::Duration::from_millis(2));
        ensure(zx::wait_many(&mut items, soon).is_err(), "there was something")
    })
}

/// Read-only memory of a process: a write by force copies all of it.
fn write_memory() -> Outcome {
    let vmo = memory(LESS, true)?;
    let weak = Vmo::from(vmo.duplicate_handle(Rights::BASIC | Rights::READ | Rights::MAP)?);
    let root = zx::startup::vmar_root_self();
    let at = root.map(abi::ZX_VM_PERM_READ, 0, &weak, 0, LESS as usize)?;
    let bytes = vec![1; 8 << 20];
    holds_shortly("write-memory", || equal(zx::startup::process_self().write_memory(at, &bytes)?, bytes.len()))?;
    Ok(root.unmap(at, LESS as usize)?)
}

/// Cases that are not split into slices.
pub const KNOWN: &[(&str, &str)] =
    &[("holds.call.pin", "bti_pin goes through all pages at once, 64 MiB in 4.6 ms; whoever calls it was given a BTI")];

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("holds.call.channel", channel),
        Case::new("holds.call.child", child),
        Case::new("holds.call.every", every_call),
        Case::new("holds.call.fifo", fifo),
        Case::new("holds.call.iob", iob),
        Case::new("holds.call.pin", pin),
        Case::new("holds.call.socket", socket),
        Case::new("holds.call.wait_many", wait_many),
        Case::new("holds.call.write_memory", write_memory),
    ]
}
