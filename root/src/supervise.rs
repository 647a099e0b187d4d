//! Supervision of instances and components: whether and when the root task starts one again after its end.
//!
//! A server ends by a fault. If the description asks for a trial, the root task makes it fault at some moment.
//! 1. The root task reports the fault ([`crate::report`]).
//! 2. The restart policy in the description determines whether there is another life, and how long the instance has to
//!    wait for it.
//! 3. If there is one, the root task takes back everything that the instance held ([`crate::resource_pool`]). After the
//!    wait it builds the server again and starts it.
//! 4. The server reports when its first program runs ([`server_boot::service::RUNNING`]). This ends the outage, and the
//!    root task logs its length.
//!
//! If there is no further life and no other instance runs, the machine stops. A component's end is handled in the same
//! way, except that step 4 is its start, and that the instances to which it offers its endpoint are notified.
//!
//! The root task has the highest priority. So it does all this work, except for the trial itself, at the default
//! priority of programs ([`at_ordinary_priority`]), and the new server begins with that priority, too. Other instances
//! continue, and share the processor with both.

use description::COMPONENTS;
use sel4::bootinfo::INIT_TCB;
use server_boot::EXIT_SERVER_DIED;

use crate::arch::tsc;
use crate::console::{error, info, micros};
use crate::error::{Context, Error};
use crate::hpet::Alarm;
use crate::instance::MAX_INSTANCES;
use crate::memory::Memory;
use crate::server::ORDINARY_PRIORITY;
use crate::start::exit;
use crate::watch::{State, Watch};
use crate::world::World;

/// The root task's priority when it serves requests.
const HIGHEST: u8 = 255;

/// See the module's description.
pub struct Supervisor {
    instances: [Watch; MAX_INSTANCES],
    components: [Watch; COMPONENTS],
    alarm: Option<Alarm>,
}

impl Supervisor {
    /// For instances and components that have just been started.
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

    /// The alarm has fired: does what is due. Servers on trial must end at their current instruction, so this comes
    /// before anything that lets them continue.
    pub fn fired(&mut self, world: &mut World<'_>) -> Result<(), Error> {
        let now = tsc();
        let servers = world.instances.iter().flatten().map(|instance| instance.server.tcb);
        let components = world.components.iter().flatten().map(|component| component.tcb);
        let watches = self.instances.iter_mut().zip(servers);
        for (watch, tcb) in watches.chain(self.components.iter_mut().zip(components)) {
            watch.run_trial(now, tcb)?;
        }
        if let Some(alarm) = &self.alarm {
            alarm.fired();
        }
        if self.instances.iter().chain(&self.components).any(|watch| watch.is_due(now)) {
            at_ordinary_priority(|| self.revive_due(now, world))?;
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

    /// The server of an instance has ended at the time-stamp counter's value `ended`: steps 2 and 3. The report has
    /// been written.
    pub fn ended(&mut self, number: usize, ended: u64, world: &mut World<'_>) -> Result<(), Error> {
        let Some(instance) = &mut world.instances[number] else { return Ok(()) };
        let name = instance.wanted.name;
        let watch = &mut self.instances[number];
        if let Some(ip) = watch.take_trial() {
            info!("server {name:?} was ended on trial at {ip:#x}");
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
        world.server_gone(number, wait.is_none())?;
        if wait == Some(0) {
            self.revive(number, world)?;
        }
        self.set_alarm();
        Ok(())
    }

    /// As [`Supervisor::ended`], for a component.
    pub fn component_ended(&mut self, number: usize, ended: u64, world: &mut World<'_>) -> Result<(), Error> {
        let Some(component) = &mut world.components[number] else { return Ok(()) };
        let name = component.wanted.name;
        let watch = &mut self.components[number];
        if let Some(ip) = watch.take_trial() {
            info!("component {name:?} was ended on trial at {ip:#x}");
        }
        let wait = watch.end(ended, &component.wanted.restart);
        if wait.is_none() {
            error!("component {name:?} is not started again: it has ended {} times", watch.ends);
        }
        let before = tsc();
        component.reclaim()?;
        self.components[number].reclaimed = micros(before, tsc());
        world.component_gone(number);
        if wait == Some(0) {
            self.revive_component(number, world)?;
        }
        self.set_alarm();
        Ok(())
    }

    fn revive(&mut self, number: usize, world: &mut World<'_>) -> Result<(), Error> {
        let Some(instance) = &mut world.instances[number] else { return Ok(()) };
        instance.revive(&mut world.resources)?;
        self.instances[number].begin(instance.wanted.trial);
        Ok(())
    }

    fn revive_component(&mut self, number: usize, world: &mut World<'_>) -> Result<(), Error> {
        let Some(component) = &mut world.components[number] else { return Ok(()) };
        component.revive(&mut world.resources)?;
        let watch = &mut self.components[number];
        watch.begin(component.wanted.trial);
        back(&format_args!("component {:?}", component.wanted.name), watch, &world.resources.memory);
        Ok(())
    }

    /// A server reports that its first program runs: step 4.
    pub fn runs(&mut self, number: usize, world: &World<'_>) -> Result<(), Error> {
        let Some(instance) = &world.instances[number] else { return Ok(()) };
        instance.server.raise_priority()?;
        let watch = &self.instances[number];
        if watch.lives > 1 {
            back(&format_args!("instance {:?}", instance.wanted.name), watch, &world.resources.memory);
        }
        Ok(())
    }

    /// Sets the alarm to the earliest time at which something is due.
    fn set_alarm(&self) {
        let Some(alarm) = &self.alarm else { return };
        let now = tsc();
        if let Some(due) = self.instances.iter().chain(&self.components).filter_map(|watch| watch.due(now)).min() {
            alarm.set(due);
        }
    }
}

/// Logs that an instance or component runs again.
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

/// Does long work at the default priority of programs.
pub fn at_ordinary_priority(work: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    INIT_TCB.set_priority(INIT_TCB, ORDINARY_PRIORITY).context("the root task's priority")?;
    let done = work();
    INIT_TCB.set_priority(INIT_TCB, HIGHEST).context("the root task's priority")?;
    done
}
