//! What tests and tools know of each call beyond its interface.

/// What tests know of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestInfo {
    /// The call's number.
    pub nr: u32,
    /// What values its arguments have, in their order.
    pub values: &'static [Values],
    /// How the conformance sweep makes it.
    pub sweep: Sweep,
    /// The cases of `hostile.holds` in which it takes longest.
    pub longest: Longest,
    /// Whether it makes something that can be used up.
    pub exhausts: bool,
    /// Why it cannot succeed often in the fuzzer.
    pub seldom: Option<&'static str>,
}

/// The values of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    /// How a value is made of constants.
    pub form: Form,
    /// Beginnings of the constants' names.
    pub constants: &'static [&'static str],
    /// Values that the fuzzer tries more often than others.
    pub likely: &'static [u64],
}

/// How a value is made of constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// It is not.
    Any,
    /// It is one of them.
    OneOf,
    /// It is any of them together.
    Flags,
}

/// How the conformance sweep makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// By these rows of arguments.
    Rows(&'static [&'static [SweepArg]]),
    /// Not at all, for this reason. The reason is empty if the call takes neither a handle nor an address, or is not
    /// implemented.
    None(&'static str),
}

/// An argument in a row of the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepArg {
    /// The handle under test, and the noun that it must be; `None` if any object will do.
    Tested(Option<&'static str>),
    /// A valid handle to an object of this noun.
    Good(&'static str),
    /// A VMO of the pager that is the argument before it.
    Paged,
    /// The address of memory that can be read and written.
    Memory,
    /// The same, for an argument for which null means "not wanted".
    Optional,
    /// The same, for a call that the sweep never makes with a valid address.
    Swept,
    /// The same, for a call in which the server finds another error before it looks at the address.
    Unswept,
    /// A number.
    Number(u64),
}

/// The cases of `hostile.holds` in which a call takes longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Longest {
    /// These, without `holds.`.
    Cases(&'static [&'static str]),
    /// None, for this reason.
    None(&'static str),
}

include!(concat!(env!("OUT_DIR"), "/test_info.rs"));

impl crate::SyscallInfo {
    /// What tests know of this call.
    pub fn tests(&self) -> &'static TestInfo {
        let place = TESTS.partition_point(|tests| tests.nr < self.nr);
        &TESTS[place]
    }
}
