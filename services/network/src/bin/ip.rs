//! Prints the network's interfaces: their addresses, the router, the name servers, and numbers of frames.
#![forbid(unsafe_code)]

use std::net::IpAddr;

use network_protocol::CardState;

/// The lines about a card.
fn lines(card: &CardState) -> Vec<String> {
    let mac: Vec<String> = card.mac.iter().map(|byte| format!("{byte:02x}")).collect();
    let address = match card.address {
        Some((address, prefix)) => format!("{address}/{prefix}"),
        None => "no address yet".to_owned(),
    };
    let link = if card.online { "" } else { ", no link" };
    let mut lines = vec![format!("net0  {address}, hardware address {}, MTU {}{link}", mac.join(":"), card.mtu)];
    let v6: Vec<String> = card.v6.addresses.iter().flatten().map(|(ip, prefix)| format!("{ip}/{prefix}")).collect();
    if !v6.is_empty() {
        lines.push(format!("      {}", v6.join(", ")));
    }
    let v4 = card.gateway.map(IpAddr::from);
    let gateways: Vec<String> =
        v4.into_iter().chain(card.v6.gateway.map(IpAddr::from)).map(|ip| ip.to_string()).collect();
    if !gateways.is_empty() {
        lines.push(format!("      gateway {}", gateways.join(", ")));
    }
    let v6 = card.v6.name_servers.iter().flatten().map(ToString::to_string);
    let servers: Vec<String> = card.name_servers.iter().flatten().map(ToString::to_string).chain(v6).collect();
    if !servers.is_empty() {
        lines.push(format!("      name servers {}", servers.join(", ")));
    }
    lines.push(format!(
        "      frames: {} received, {} sent, {} ignored; {} without room",
        card.received, card.sent, card.ignored, card.no_room
    ));
    lines
}

#[cfg(target_os = "fuchsia")]
fn ask() -> Result<Option<CardState>, String> {
    use network_protocol::{Error, LONGEST, Reply, Request, SERVICE};
    use zx::MonotonicInstant;

    // The first socket waits for the card's address, and so does this.
    let _ = std::net::UdpSocket::bind("127.0.0.1:0");
    let step = |status: zx::Status| format!("the network service: {status}");
    let service = zx::startup::connect(SERVICE).map_err(step)?;
    let mut bytes = [0; LONGEST];
    let request = Request::Card.encode(0);
    let size = service.call(MonotonicInstant::INFINITE, request.as_bytes(), [], &mut bytes, &mut []).map_err(step)?;
    match Reply::decode(&bytes[..size.bytes]) {
        Some(Ok(Reply::Card(state))) => Ok(Some(state)),
        Some(Err(Error::NoCard)) => Ok(None),
        _ => Err("the network service gave no answer of the protocol".to_owned()),
    }
}

#[cfg(not(target_os = "fuchsia"))]
fn ask() -> Result<Option<CardState>, String> {
    Err("this is a program of a Hafnon system".to_owned())
}

fn main() -> Result<(), String> {
    let card = ask()?;
    println!("lo    127.0.0.1/8, ::1/128, MTU 65535");
    for line in card.iter().flat_map(lines) {
        println!("{line}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use network_protocol::CardStateV6;

    use super::{CardState, lines};

    #[test]
    fn a_card_is_told() {
        let ip = |last: u8| std::net::Ipv4Addr::new(192, 0, 2, last);
        let card = CardState {
            mac: [0x52, 0x54, 0, 0x12, 0x34, 0x56],
            online: true,
            mtu: 1500,
            address: Some((ip(15), 24)),
            gateway: Some(ip(2)),
            name_servers: [Some(ip(3)), Some(ip(4)), None],
            received: 5,
            sent: 6,
            ignored: 7,
            no_room: 8,
            v6: CardStateV6::default(),
        };
        assert_eq!(
            lines(&card).join("\n"),
            "net0  192.0.2.15/24, hardware address 52:54:00:12:34:56, MTU 1500\n      gateway 192.0.2.2\n      \
             name servers 192.0.2.3, 192.0.2.4\n      frames: 5 received, 6 sent, 7 ignored; 8 without room"
        );
        let v6 = |text: &str| text.parse().unwrap();
        let mut card = CardState { online: false, ..card };
        assert_eq!(lines(&card)[0], "net0  192.0.2.15/24, hardware address 52:54:00:12:34:56, MTU 1500, no link");
        card.v6.addresses[..2].copy_from_slice(&[Some((v6("fe80::1"), 64)), Some((v6("2001:db8::5"), 64))]);
        (card.v6.gateway, card.v6.name_servers[0]) = (Some(v6("fe80::2")), Some(v6("2001:db8::3")));
        assert_eq!(
            lines(&card)[1..4].join("\n"),
            "      fe80::1/64, 2001:db8::5/64\n      gateway 192.0.2.2, fe80::2\n      \
             name servers 192.0.2.3, 192.0.2.4, 2001:db8::3"
        );
    }
}
