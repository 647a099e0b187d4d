//! Handles that attackers get in addition to what they create.

use abi::Rights;
use conformance::check::{Failure, ensure};
use hostile::Dice;
use zx::{
    Bti, Channel, Clock, Counter, Duration, Event, EventPair, Fifo, Handle, Iommu, MonotonicInstant, Pager, Port,
    Resource, Socket, Timer, Vmo,
};

use crate::grammar::NamedHandle;

/// See the module's description.
pub struct Supplies {
    resources: Vec<(NamedHandle, Resource)>,
    /// One BTI for all: its holder, this program, releases pins that stay when an attacker ends.
    bti: Bti,
    /// Peers of handles that earlier attackers got, and duplicates of those handles.
    others: Vec<Handle>,
}

impl Supplies {
    /// The supplies for a round.
    pub fn new() -> Result<Supplies, Failure> {
        let root = zx::startup::resource().ok_or("this program was not given the root resource")?;
        let system = abi::ZX_RSRC_KIND_SYSTEM;
        // Without the parts that only trusted programs hold: power, tracing, the host link.
        let parts = [
            (NamedHandle::Vmex, system, abi::ZX_RSRC_SYSTEM_VMEX_BASE, 1),
            (NamedHandle::Msi, system, abi::ZX_RSRC_SYSTEM_MSI_BASE, 1),
            (NamedHandle::DebugLog, system, abi::ZX_RSRC_SYSTEM_DEBUGLOG_BASE, 1),
            (NamedHandle::Profile, system, abi::ZX_RSRC_SYSTEM_PROFILE_BASE, 1),
            (NamedHandle::Endpoint, system, abi::HAFNON_RSRC_SYSTEM_ENDPOINT_BASE, 1),
            (NamedHandle::IoPorts, abi::ZX_RSRC_KIND_IOPORT, 0x300, 16),
        ];
        let create = |(gift, kind, base, size)| Ok((gift, root.create_child(kind, base, size, "hostile")?));
        let mut resources = parts.into_iter().map(create).collect::<Result<Vec<_>, Failure>>()?;
        for base in [abi::ZX_RSRC_SYSTEM_INFO_BASE, abi::ZX_RSRC_SYSTEM_CPU_BASE] {
            resources.push((NamedHandle::Other, root.create_child(system, base, 1, "hostile")?));
        }
        let bti = Bti::create(&Iommu::create_stub(&root)?, 1)?;
        Ok(Supplies { resources, bti, others: Vec::new() })
    }

    /// The handles that a new attacker gets by name.
    pub fn gifts(&self) -> Result<Vec<(NamedHandle, Handle)>, Failure> {
        let mut gifts: Vec<(NamedHandle, Handle)> = Vec::new();
        for (gift, resource) in &self.resources {
            gifts.push((*gift, resource.duplicate(Rights::SAME_RIGHTS)?.into()));
        }
        gifts.extend([(NamedHandle::Port, Port::create()?.into()), (NamedHandle::Pager, Pager::create()?.into())]);
        gifts.push((NamedHandle::Bti, self.bti.duplicate(Rights::SAME_RIGHTS)?.into()));
        Ok(gifts)
    }

    /// Releases the pins of attackers that have ended.
    pub fn release(&self) -> Result<(), Failure> {
        Ok(self.bti.release_quarantine()?)
    }

    /// Waits until nothing is pinned: an attacker's objects are destroyed some time after its end, and a pin stays
    /// while no process has a handle to the BTI.
    pub fn await_unpinned(&self) -> Result<(), Failure> {
        let deadline = MonotonicInstant::after(Duration::from_seconds(20));
        loop {
            self.release()?;
            let pinned = self.bti.info()?.pmo_count;
            if pinned == 0 {
                return Ok(());
            }
            ensure(MonotonicInstant::now() < deadline, &format!("{pinned} ranges are pinned with nobody left"))?;
            zx::nanosleep(MonotonicInstant::after(Duration::from_millis(5)))?;
        }
    }

    /// The other handles that an attacker gets.
    pub fn draw(&mut self, dice: &mut Dice) -> Result<Vec<Handle>, Failure> {
        let mut handles: Vec<Handle> = Vec::new();
        handles.extend([Vmo::create(8 * 4096, 0)?.into(), Vmo::create(16 * 4096, abi::ZX_VMO_RESIZABLE)?.into()]);
        handles.extend([Port::create()?.into(), Event::create()?.into(), Timer::create(0)?.into()]);
        handles.extend([Counter::create()?.into(), Port::create_for_interrupts()?.into()]);
        handles.extend([Clock::create(abi::ZX_CLOCK_OPT_MAPPABLE)?.into()]);
        let (a, b) = Channel::create()?;
        handles.extend([a.into(), b.into()]);
        let (a, b) = Socket::create(0)?;
        handles.extend([a.into(), b.into()]);
        // One end of each; another attacker may get the peer.
        let (a, b) = Channel::create()?;
        let (c, d) = EventPair::create()?;
        let (e, f) = Fifo::create(8, 8)?;
        let (g, h) = Socket::create(abi::ZX_SOCKET_DATAGRAM)?;
        let near: [Handle; 4] = [a.into(), c.into(), e.into(), g.into()];
        let far: [Handle; 4] = [b.into(), d.into(), f.into(), h.into()];
        handles.extend(near);
        let shared = Vmo::create(8 * 4096, 0)?;
        handles.push(shared.duplicate(Rights::SAME_RIGHTS)?.into());
        handles.append(&mut self.others);
        self.others.extend(far);
        self.others.push(shared.into());
        // A varying number, so that a handle's value says little.
        handles.truncate(20 + dice.below(18) as usize);
        Ok(handles)
    }
}
