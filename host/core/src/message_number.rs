//! The numbers of messages. The types are different, so that a service's number cannot be used in
//! place of a UID.

use std::fmt;

/// The service's number of a message, which is the `uid` of the API. A message keeps its number in
/// every folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageNumber(pub u64);

/// The UID of a message on the mail server (RFC 3501, section 2.3.1.1). A UID is valid in one
/// folder, together with the UIDVALIDITY of the folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(pub u32);

impl fmt::Display for MessageNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The database stores UIDs as `i64`.
impl From<Uid> for i64 {
    fn from(uid: Uid) -> Self {
        uid.0.into()
    }
}

/// The database stores numbers as `i64`. No message has a number that does not fit.
impl TryFrom<MessageNumber> for i64 {
    type Error = std::num::TryFromIntError;

    fn try_from(number: MessageNumber) -> Result<Self, Self::Error> {
        number.0.try_into()
    }
}
