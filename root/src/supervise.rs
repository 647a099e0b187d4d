//! Watches the instances and the components: what becomes of one that has ended, and when.
//!
//! A server ends by a fault. Where the description asks for a trial, the root task has it fault at some moment.
//! 1. What happened is reported ([`crate::report`]).
//! 2. The description's policy says whether there is another life, and how long the instance has to wait for it.
//! 3. If there is one, everything that the instance held is taken back ([`crate::estate`]), after the wait its server is
//!    built again and runs.
//! 4. The server says when its first program runs ([`server_boot::service::RUNNING`]): that is the end of the outage, which
//!    is reported with its length.
//!
//! Where there is none and no other instance lives, the machine stops. A component's end goes the same way, but that
//! step 4 is its start, and that the instances are told which it offers its endpoint to.
//!
//! The root task stands above everything, so all of this but the trial itself is done at the priority of ordinary programs ([`ordinarily`]),
//! and the new server begins with it, too: other instances go on, and share the processor with both.

use description::COMPONENTS;
use sel4::bootinfo::INIT_TCB;
use server_boot::EXIT_SERVER_DIED;

use crate::console::{error, info, micros, tsc};
use crate::error::{Context, Error};
use crate::hpet::Alarm;
use crate::instance::MAX_INSTANCES;
use crate::memory::Memory;
use crate::server::ORDINARY_PRIORITY;
use crate::start::exit;
use crate::watch::{State, Watch};
use crate::world::World;

/// The root task's own priority, when it serves.
const HIGHEST: u8 = 255;

/// See the module's description.
pub struct Supervisor {
    instances: [Watch; MAX_INSTANCES],
    components: [Watch; COMPONENTS],
    alarm: Option<Alarm>,
}

impl Supervisor {
    /// Of instances and components that have just been started.
    pub fn new(alarm: Option<Alarm>, world: &World<'_>) -> Result<Self, Error> {
        let mut supervisor =
            Supervisor { instances: [Watch::ABSENT; MAX_INSTANCES], components: [Watch::ABSENT; COMPONENTS], alarm };
        let instances = world.instances.iter().flatten().map(|one| (one.wanted.trial, one.wanted.restart));
        let components = world.components.iter().flatten().map(|one| (one.wanted.trial, one.wanted.restart));
        let mut waits = false;
        let watches = supervisor.instances.iter_mut().zip(instances);
        for (watch, (trial, restart)) in watches.chain(supervisor.components.iter_mut().zip(components)) {
            waits |= trial.is_some() || restart.after != 0;
            *watch = Watch::new(trial);
        }
        if supervisor.alarm.is_none() && waits {
            return Err(Error::Device("comparator of the HPET left for the root task, which is to wait"));
        }
        supervisor.set_alarm();
        Ok(supervisor)
    }

    /// The alarm rang: does what is due. Servers that are to end do so where they are, so this comes before anything that lets
    /// them go on.
    pub fn rang(&mut self, world: &mut World<'_>) -> Result<(), Error> {
        let now = tsc();
        let servers = world.instances.iter().flatten().map(|instance| instance.server.tcb);
        let components = world.components.iter().flatten().map(|component| component.tcb);
        let watches = self.instances.iter_mut().zip(servers);
        for (watch, tcb) in watches.chain(self.components.iter_mut().zip(components)) {
            watch.try_it(now, tcb)?;
        }
        if let Some(alarm) = &self.alarm {
            alarm.rang();
        }
        if self.instances.iter().chain(&self.components).any(|watch| watch.is_due(now)) {
            ordinarily(|| self.revive_due(now, world))?;
        }
        self.set_alarm();
        Ok(())
    }

    fn revive_due(&mut self, now: u64, world: &mut World<'_>) -> Result<(), Error> {
        for number in 0..MAX_INSTANCES {
            if self.instances[number].is_due(now) {
                self.revive(number, world)?;
            }
        }
        for number in 0..COMPONENTS {
            if self.components[number].is_due(now) {
                self.revive_component(number, world)?;
            }
        }
        Ok(())
    }

    /// The server of an instance has ended at that reading of the processor's counter: steps 2 and 3. What happened has been
    /// reported.
    pub fn ended(&mut self, number: usize, ended: u64, world: &mut World<'_>) -> Result<(), Error> {
        let Some(instance) = &mut world.instances[number] else { return Ok(()) };
        let name = instance.wanted.name;
        let watch = &mut self.instances[number];
        if let Some(rip) = watch.was_on_trial() {
            info!("server {name:?} was ended on trial at {rip:#x}");
        }
        let wait = watch.end(ended, &instance.wanted.restart);
        let ends = watch.ends;
        if self.instances.iter().all(|watch| watch.state == State::Gone) {
            exit(EXIT_SERVER_DIED);
        }
        if wait.is_none() {
            error!("instance {name:?} is not started again: {ends} of its servers have ended");
        }
        let before = tsc();
        instance.reclaim()?;
        self.instances[number].reclaimed = micros(before, tsc());
        world.server_is_away(number, wait.is_none())?;
        if wait == Some(0) {
            self.revive(number, world)?;
        }
        self.set_alarm();
        Ok(())
    }

    /// The same for a component.
    pub fn component_ended(&mut self, number: usize, ended: u64, world: &mut World<'_>) -> Result<(), Error> {
        let Some(component) = &mut world.components[number] else { return Ok(()) };
        let name = component.wanted.name;
        let watch = &mut self.components[number];
        if let Some(rip) = watch.was_on_trial() {
            info!("component {name:?} was ended on trial at {rip:#x}");
        }
        let wait = watch.end(ended, &component.wanted.restart);
        if wait.is_none() {
            error!("component {name:?} is not started again: it has ended {} times", watch.ends);
        }
        let before = tsc();
        component.reclaim()?;
        self.components[number].reclaimed = micros(before, tsc());
        world.component_is_away(number);
        if wait == Some(0) {
            self.revive_component(number, world)?;
        }
        self.set_alarm();
        Ok(())
    }

    fn revive(&mut self, number: usize, world: &mut World<'_>) -> Result<(), Error> {
        let Some(instance) = &mut world.instances[number] else { return Ok(()) };
        instance.revive(&mut world.means)?;
        self.instances[number].begin(instance.wanted.trial);
        Ok(())
    }

    fn revive_component(&mut self, number: usize, world: &mut World<'_>) -> Result<(), Error> {
        let Some(component) = &mut world.components[number] else { return Ok(()) };
        component.revive(&mut world.means)?;
        let watch = &mut self.components[number];
        watch.begin(component.wanted.trial);
        back(&format_args!("component {:?}", component.wanted.name), watch, &world.means.memory);
        Ok(())
    }

    /// A server says that its first program runs: step 4.
    pub fn runs(&mut self, number: usize, world: &World<'_>) -> Result<(), Error> {
        let Some(instance) = &world.instances[number] else { return Ok(()) };
        instance.server.rise()?;
        let watch = &self.instances[number];
        if watch.lives > 1 {
            back(&format_args!("instance {:?}", instance.wanted.name), watch, &world.means.memory);
        }
        Ok(())
    }

    /// Sets the alarm for what is due first.
    fn set_alarm(&self) {
        let Some(alarm) = &self.alarm else { return };
        let now = tsc();
        if let Some(due) = self.instances.iter().chain(&self.components).filter_map(|watch| watch.due(now)).min() {
            alarm.set(due);
        }
    }
}

/// Says that somebody runs again.
fn back(who: &core::fmt::Arguments<'_>, watch: &Watch, memory: &Memory) {
    let (slots, bytes) = memory.taken();
    let Watch { lives, ended, reclaimed, .. } = *watch;
    info!(
        "{who} runs again (life {lives}), {} us after its end, {reclaimed} of them to take back; {slots} slots and {} KiB \
         are taken in all",
        micros(ended, tsc()),
        bytes >> 10
    );
}

/// Does something that takes long as if the root task were any program.
pub fn ordinarily(work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    INIT_TCB.set_priority(INIT_TCB, ORDINARY_PRIORITY).context("the root task's priority")?;
    let done = work();
    INIT_TCB.set_priority(INIT_TCB, HIGHEST).context("the root task's priority")?;
    done
}
