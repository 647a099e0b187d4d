//! What a driver gets at its start in addition to what every service gets: its resources.

use std::iter::Peekable;

use zx::Resource;

/// Type of the start handles that are resources (`PA_USER0`), in the order of the system description.
const RESOURCES: u32 = 0xf0;

/// Takes the resources, in the order of the system description: I/O ports, interrupts, memory, facilities.
pub fn resources() -> Peekable<impl Iterator<Item = Resource>> {
    (0..).map_while(|index| zx::startup::take(RESOURCES, index)).map(Resource::from).peekable()
}

/// Takes the next resource, which must be of this kind (`ZX_RSRC_KIND_*`).
///
/// # Errors
/// A message for the log.
pub fn expect(
    resources: &mut Peekable<impl Iterator<Item = Resource>>,
    kind: u32,
    what: &str,
) -> Result<Resource, String> {
    resources.next_if(|resource| is(resource, kind)).ok_or_else(|| format!("it was not given {what}"))
}

/// Whether a resource is of this kind.
pub fn is(resource: &Resource, kind: u32) -> bool {
    resource.info().is_ok_and(|info| info.kind == kind)
}
