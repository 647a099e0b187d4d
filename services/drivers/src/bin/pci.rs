//! The bus driver. It finds the devices on the PCI bus, and gives each device's driver access to that device only.
//!
//! Its resources: the two ports of the configuration registers, the address ranges for devices, the IOMMU, and
//! message-signalled interrupts. A client names a device by the words `VENDOR:DEVICE` and is connected to the first
//! such device without a driver. [`drivers::pci`] defines the requests.
//!
//! When a driver's channel closes, the bus driver stops the device's memory access, because a driver that crashed did
//! not stop its device.
#![forbid(unsafe_code)]

#[cfg(target_os = "fuchsia")]
mod here {
    use std::collections::HashMap;

    use drivers::pci::{self, Messages, PciAddress, PciDevice, Registers, Request, Window};
    use drivers::startup;
    use service::{ChannelEnds, Client, Clients, End, Event, Program};
    use zx::{
        AsHandleRef, Bti, Channel, Handle, IoPorts, Iommu, MonotonicInstant, Msi, Port, Resource, Rights, Signals,
        Status, Vmo,
    };

    const CLIENTS: u64 = 1;
    const FIRST: u64 = 2;

    /// Access to the configuration registers through an index port and a data port.
    struct Bus(IoPorts);

    impl Bus {
        fn select(&self, place: PciAddress, offset: u8) {
            self.0.write32(0, 1 << 31 | u32::from(place.number()) << 8 | u32::from(offset & 0xfc));
        }
    }

    impl Registers for Bus {
        fn read(&self, place: PciAddress, offset: u8) -> u32 {
            self.select(place, offset);
            self.0.read32(4)
        }
        fn write(&self, place: PciAddress, offset: u8, value: u32) {
            self.select(place, offset);
            self.0.write32(4, value);
        }
    }

    struct Device {
        found: PciDevice,
        windows: Vec<Window>,
        messages: Option<Messages>,
        /// Created on the first request and kept, because the BTI holds the quarantined memory.
        bti: Option<Bti>,
        interrupts: Option<Msi>,
        /// The key of the device's driver.
        driver: Option<u64>,
    }

    struct Pci {
        bus: Bus,
        /// The address ranges for devices.
        memory: Vec<Resource>,
        iommu: Iommu,
        msi: Resource,
        devices: Vec<Device>,
        port: Port,
        /// One channel per driver, so never more than there are devices.
        channels: HashMap<u64, (End, Program)>,
        ends: ChannelEnds,
        next: u64,
    }

    pub fn main() -> Result<(), String> {
        let step = |what: &'static str| move |status: Status| format!("{what}: {status}");
        let mut resources = startup::resources();
        let ports = startup::expect(&mut resources, abi::ZX_RSRC_KIND_IOPORT, "I/O ports")?;
        let mut memory = Vec::new();
        while let Some(range) = resources.next_if(|resource| startup::is(resource, abi::ZX_RSRC_KIND_MMIO)) {
            memory.push(range);
        }
        let iommu = startup::expect(&mut resources, abi::ZX_RSRC_KIND_SYSTEM, "the IOMMU")?;
        let msi = startup::expect(&mut resources, abi::ZX_RSRC_KIND_SYSTEM, "messages")?;
        let clients = Clients::take()?;
        let bus = Bus(IoPorts::of(&ports).map_err(step("ports"))?);
        let devices = pci::find(&bus).into_iter().map(|found| Device {
            found,
            windows: pci::windows(&bus, found.place),
            messages: pci::messages(&bus, found.place),
            bti: None,
            interrupts: None,
            driver: None,
        });
        let mut pci = Pci {
            devices: devices.collect(),
            bus,
            memory,
            iommu: Iommu::create_stub(&iommu).map_err(step("IOMMU"))?,
            msi,
            port: Port::create().map_err(step("port"))?,
            channels: HashMap::new(),
            ends: ChannelEnds::default(),
            next: FIRST,
        };
        // Under an earlier bus driver, devices whose drivers have lost them may still be active.
        for device in &pci.devices {
            if device.windows.is_empty() {
                continue;
            }
            pci.quiet(device);
        }
        pci.watch(&clients.0, CLIENTS).map_err(step("clients"))?;
        loop {
            let packet = pci.port.wait(MonotonicInstant::INFINITE).map_err(step("port"))?;
            if packet.key != CLIENTS {
                pci.serve(packet.key);
                continue;
            }
            match clients.next() {
                Ok(Event::Client(client)) => pci.add(client),
                Ok(Event::Ended(program)) => pci.program_ended(program),
                Err(Status::SHOULD_WAIT) => {}
                Err(_) => return Ok(()),
            }
            pci.watch(&clients.0, CLIENTS).map_err(step("clients"))?;
        }
    }

    /// Parses `VENDOR:DEVICE`, in hexadecimal.
    fn named(words: &str) -> Option<(u16, u16)> {
        let (vendor, device) = words.split_once(':')?;
        Some((u16::from_str_radix(vendor, 16).ok()?, u16::from_str_radix(device, 16).ok()?))
    }

    impl Pci {
        fn watch(&self, channel: &Channel, key: u64) -> zx::Result<()> {
            channel.wait_async(&self.port, key, Signals::CHANNEL_READABLE | Signals::CHANNEL_PEER_CLOSED, 0)
        }

        /// Stops the device's memory accesses and interrupts.
        fn quiet(&self, device: &Device) {
            let command = self.bus.read(device.found.place, pci::COMMAND) & 0xffff;
            self.bus.write(device.found.place, pci::COMMAND, command & !pci::MASTER);
            if let Some(messages) = &device.messages {
                pci::enable_messages(&self.bus, device.found.place, messages, false);
            }
        }

        fn add(&mut self, client: Client) {
            let wanted = named(&client.words);
            let mut handles = client.handles.into_iter();
            let fits = |device: &&mut Device| {
                wanted == Some((device.found.vendor, device.found.device)) && device.driver.is_none()
            };
            let Some(Ok(channel)) = handles.next().map(|handle| self.ends.take(handle)) else { return };
            let Some(device) = self.devices.iter_mut().find(fits) else {
                eprintln!("there is no device {} that is free", client.words);
                return;
            };
            let key = self.next;
            self.next += 1;
            device.driver = Some(key);
            if self.watch(&channel, key).is_ok() {
                self.channels.insert(key, (channel, client.program));
            } else {
                self.ended(key);
            }
        }

        /// Answers one request, or handles the end of the driver's channel.
        fn serve(&mut self, key: u64) {
            let Some((channel, program)) = self.channels.remove(&key) else { return };
            let mut bytes = [0; pci::REQUEST];
            let read = channel.read(&mut bytes, &mut []);
            // Before the answer: when its driver closes the channel then, the device is free for the next one at once.
            let watched = self.watch(&channel, key).is_ok();
            let goes_on = match read {
                Ok(size) => match Request::from_bytes(&bytes[..size.bytes]) {
                    Some((number, request)) => {
                        let (status, one, two, handle) = match self.answer(key, request) {
                            Ok((one, two, handle)) => (0, one, two, handle),
                            Err(status) => (status.0, 0, 0, None),
                        };
                        channel.write_handles(&pci::answer(number, status, one, two), handle).is_ok()
                    }
                    None => false,
                },
                Err((Status::SHOULD_WAIT, _)) => true,
                Err(_) => false,
            };
            if goes_on && watched {
                self.channels.insert(key, (channel, program));
            } else {
                self.ended(key);
            }
        }

        /// A driver's program has ended. Another process may still hold its channel.
        fn program_ended(&mut self, program: Program) {
            let of = |(key, (_, of)): (&u64, &(End, Program))| (*of == program).then_some(*key);
            let keys: Vec<u64> = self.channels.iter().filter_map(of).collect();
            for key in keys {
                self.channels.remove(&key);
                self.ended(key);
            }
        }

        fn ended(&mut self, key: u64) {
            let Some(index) = self.devices.iter().position(|device| device.driver == Some(key)) else { return };
            self.devices[index].driver = None;
            self.quiet(&self.devices[index]);
        }

        fn answer(&mut self, key: u64, request: Request) -> zx::Result<(u64, u64, Option<Handle>)> {
            let device = self.devices.iter_mut().find(|device| device.driver == Some(key)).ok_or(Status::NOT_FOUND)?;
            let place = device.found.place;
            match request {
                Request::Read(offset) => Ok((self.bus.read(place, offset).into(), 0, None)),
                Request::Write(offset, value) if offset == pci::COMMAND => {
                    let before = self.bus.read(place, pci::COMMAND);
                    self.bus.write(place, pci::COMMAND, pci::command_for_driver(before, value));
                    Ok((0, 0, None))
                }
                Request::Write(..) => Err(Status::ACCESS_DENIED),
                Request::Window(index) => {
                    let window = device.windows.iter().find(|window| window.index == index).ok_or(Status::NOT_FOUND)?;
                    // A driver that can write to the MSI-X table can raise any interrupt, so this window is not given
                    // out.
                    let vmo = match device.messages {
                        Some(messages) if messages.window == index => None,
                        _ => Some(physical(&self.memory, window)?.into()),
                    };
                    Ok((window.address, window.size, vmo))
                }
                Request::Bti => {
                    let bti = match device.bti.take() {
                        Some(bti) => bti,
                        None => Bti::create(&self.iommu, place.number().into())?,
                    };
                    let handle = bti.duplicate(Rights::SAME_RIGHTS);
                    device.bti = Some(bti);
                    Ok((0, 0, Some(handle?.into())))
                }
                Request::Interrupt(index) => {
                    let messages =
                        device.messages.filter(|messages| index < messages.count).ok_or(Status::NOT_FOUND)?;
                    let window = device.windows.iter().find(|window| window.index == messages.window);
                    let table = physical(&self.memory, window.ok_or(Status::NOT_FOUND)?)?;
                    let interrupts = match device.interrupts.take() {
                        Some(interrupts) => interrupts,
                        None => Msi::allocate(&self.msi, 1)?,
                    };
                    // One interrupt is enough for every device so far. A second one needs a second allocation.
                    let interrupt = if index == 0 {
                        let options = abi::ZX_MSI_MODE_MSI_X;
                        interrupts.create(options, 0, &table, messages.offset as usize)
                    } else {
                        Err(Status::NO_RESOURCES)
                    };
                    device.interrupts = Some(interrupts);
                    let interrupt = interrupt?;
                    pci::enable_messages(&self.bus, place, &messages, true);
                    Ok((0, 0, Some(interrupt.into())))
                }
            }
        }
    }

    fn physical(memory: &[Resource], window: &Window) -> zx::Result<Vmo> {
        let place = |value: u64| usize::try_from(value).map_err(|_| Status::OUT_OF_RANGE);
        let (address, size) = (place(window.address)?, place(window.size.next_multiple_of(4096))?);
        let made = memory.iter().find_map(|range| Vmo::create_physical(range, address, size).ok());
        let vmo = made.ok_or(Status::OUT_OF_RANGE)?;
        vmo.set_cache_policy(abi::ZX_CACHE_POLICY_UNCACHED_DEVICE)?;
        Ok(vmo)
    }
}

#[cfg(target_os = "fuchsia")]
fn main() {
    if let Err(problem) = here::main() {
        eprintln!("{problem}");
        std::process::exit(1);
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn main() {
    eprintln!("pci: this driver runs on Hafnon");
    std::process::exit(2);
}
