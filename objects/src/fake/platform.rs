//! Time, random numbers, console and power of the fake machine.

use alloc::string::String;

use super::FakeMachine;
use crate::machine::{Console, Conversion, Power, PowerSwitch, Random, Time};

impl Time for FakeMachine {
    fn now(&self) -> i64 {
        self.looked.update(|looked| looked + self.pace);
        self.time + self.looked.get()
    }

    fn ticks(&self) -> i64 {
        self.time
    }

    fn conversion(&self) -> Conversion {
        Conversion { per_second: 1_000_000_000, offset: 0, numerator: 1, denominator: 1 }
    }

    fn utc_offset(&self) -> i64 {
        0
    }

    fn set_deadline(&mut self, deadline: i64) {
        self.deadlines.insert(deadline);
    }

    fn idle_time(&self) -> Option<i64> {
        (!self.is_bare).then_some(self.idle_time)
    }
}

impl Random for FakeMachine {
    fn random(&mut self, out: &mut [u8]) {
        for byte in out {
            self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            *byte = (self.seed >> 56) as u8;
        }
    }

    fn add_entropy(&mut self, _: &[u8]) {}
}

impl Console for FakeMachine {
    fn console_write(&mut self, text: &[u8]) {
        self.console.push_str(&String::from_utf8_lossy(text));
    }

    fn serial_write(&mut self, data: &[u8]) -> usize {
        let taken = data.len().min(self.serial_room);
        self.serial_room -= taken;
        self.sent.extend_from_slice(&data[..taken]);
        taken
    }

    fn serial_read(&mut self, out: &mut [u8]) -> usize {
        let taken = out.len().min(self.received.len());
        for (to, from) in out.iter_mut().zip(self.received.drain(..taken)) {
            *to = from;
        }
        taken
    }
}

impl PowerSwitch for FakeMachine {
    fn power(&mut self, how: Power) {
        self.power = Some(how);
    }
}
