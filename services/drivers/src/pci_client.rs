//! A driver's connection to the bus driver, which stands for its device.

use std::rc::Rc;

use driver::{Config, Window};
use zx::{Bti, Channel, Handle, Interrupt, MonotonicInstant, Port, Status};

use crate::pci;

/// A device, accessed through the bus driver, which stops it when the last clone is dropped.
#[derive(Clone)]
pub struct PciClient {
    channel: Rc<Channel>,
    /// Address and size of each window.
    windows: Rc<[Option<(u64, u64)>; 6]>,
}

/// What the bus driver gives the driver of a device.
pub struct Parts {
    /// The connection.
    pub device: PciClient,
    /// The device's windows.
    pub windows: Vec<Window>,
    /// The device's access to memory.
    pub bti: Bti,
    /// Its interrupt.
    pub interrupt: Interrupt,
    /// The port for all of the driver's packets. The interrupt is bound to it.
    pub port: Port,
}

fn ask(channel: &Channel, request: pci::Request) -> zx::Result<(u64, u64, Option<Handle>)> {
    let mut bytes = [0; pci::ANSWER];
    let mut handles = [None];
    let size = channel.call(MonotonicInstant::INFINITE, &request.to_bytes(), [], &mut bytes, &mut handles)?;
    let (status, one, two) = pci::answered(&bytes[..size.bytes]).ok_or(Status::IO_DATA_INTEGRITY)?;
    let [handle] = handles;
    if status == 0 { Ok((one, two, handle)) } else { Err(Status(status)) }
}

impl PciClient {
    /// Takes the first service that this driver uses, which is the bus driver, and what that gives it. `key` is the key
    /// of the interrupt's packets.
    ///
    /// # Errors
    /// A sentence for the log.
    pub fn take(key: u64) -> Result<Parts, String> {
        let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
        let channel = service::uses(0).map_err(step("the bus driver"))?;
        let mut places = [None; 6];
        let mut windows = Vec::new();
        for (index, place) in (0..).zip(&mut places) {
            match ask(&channel, pci::Request::Window(index)) {
                Ok((address, size, vmo)) => {
                    *place = Some((address, size));
                    if let Some(vmo) = vmo {
                        windows.push(Window::new(address, size, &vmo.into()).map_err(step("a window"))?);
                    }
                }
                Err(Status::NOT_FOUND) => {}
                Err(status) => return Err(format!("the bus driver: {status}")),
            }
        }
        let handle = |request: pci::Request, what: &'static str| {
            let (_, _, handle) = ask(&channel, request).map_err(step(what))?;
            handle.ok_or_else(|| format!("{what}: the bus driver gave none"))
        };
        let bti = Bti::from(handle(pci::Request::Bti, "the BTI")?);
        let interrupt = Interrupt::from(handle(pci::Request::Interrupt(0), "the interrupt")?);
        let port = Port::create_for_interrupts().map_err(step("port"))?;
        interrupt.bind(&port, key).map_err(step("interrupt"))?;
        let device = PciClient { channel: Rc::new(channel), windows: Rc::new(places) };
        Ok(Parts { device, windows, bti, interrupt, port })
    }

    /// Lets the device answer at its windows and access memory.
    pub fn start(&self) {
        let command = self.read(pci::COMMAND);
        self.write(pci::COMMAND, command | pci::MEMORY | pci::MASTER | pci::NO_PIN);
    }
}

impl Config for PciClient {
    fn read(&self, offset: u8) -> u32 {
        ask(&self.channel, pci::Request::Read(offset)).map_or(u32::MAX, |(value, ..)| value as u32)
    }
    fn write(&self, offset: u8, value: u32) {
        // If the bus driver refuses the write, it has no effect.
        let _ = ask(&self.channel, pci::Request::Write(offset, value));
    }
    fn window(&self, index: u8) -> Option<(u64, u64)> {
        self.windows.get(usize::from(index)).copied().flatten()
    }
}
