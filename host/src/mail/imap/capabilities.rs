//! What a server can do, as far as it changes what is asked of it.

use imap_proto::Capability;

use crate::sasl::Mechanism;

/// The extensions that are made use of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an extension of its own"
)]
pub(in crate::mail) struct Capabilities {
    /// `AUTH=PLAIN` (RFC 4616).
    pub(in crate::mail) auth_plain: bool,
    /// `AUTH=OAUTHBEARER` (RFC 7628).
    pub(in crate::mail) auth_oauthbearer: bool,
    /// `AUTH=XOAUTH2`, its predecessor.
    pub(in crate::mail) auth_xoauth2: bool,
    /// `SASL-IR`: the first response travels with AUTHENTICATE (RFC 4959).
    pub(in crate::mail) sasl_ir: bool,
    /// `LOGINDISABLED`: LOGIN is not to be tried (RFC 3501, section 6.2.3).
    pub(in crate::mail) login_disabled: bool,
    /// `LIST-EXTENDED`: LIST takes RETURN options (RFC 5258).
    pub(in crate::mail) list_extended: bool,
    /// `LIST-STATUS`: LIST answers STATUS too (RFC 5819).
    pub(in crate::mail) list_status: bool,
    /// `SPECIAL-USE`: folders have roles (RFC 6154).
    pub(in crate::mail) special_use: bool,
    /// `LITERAL+`: literals of any length need not be waited for (RFC 7888).
    pub(in crate::mail) literal_plus: bool,
    /// `MOVE` (RFC 6851).
    pub(in crate::mail) r#move: bool,
    /// `OBJECTID`: folders and messages have ids (RFC 8474).
    pub(in crate::mail) object_id: bool,
    /// Dovecot's `X-GUID`: the same. The server does not name this among its capabilities; it is asked whether it knows it.
    pub(in crate::mail) guid: bool,
    /// `UNSELECT` (RFC 3691).
    pub(in crate::mail) unselect: bool,
    /// `UIDPLUS`: some messages can be expunged, and copies name their UIDs (RFC 4315).
    pub(in crate::mail) uid_plus: bool,
}

impl Capabilities {
    /// The required extensions that a server lacks, each with what does not work without it. Some servers name them only after log-in.
    pub(in crate::mail) fn lacks(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        [
            (
                self.r#move,
                "MOVE (RFC 6851)",
                "messages cannot be moved to another folder",
            ),
            (
                self.uid_plus,
                "UIDPLUS (RFC 4315)",
                "messages can be neither moved nor deleted",
            ),
        ]
        .into_iter()
        .filter(|(there, ..)| !there)
        .map(|(_, extension, effect)| (extension, effect))
    }

    /// What STATUS is asked for to get a folder's id. `X-GUID` comes first, so that the ids of a mailbox stay the same when Dovecot learns `OBJECTID`.
    pub(in crate::mail) fn folder_ids(self) -> Option<&'static str> {
        self.ids("MAILBOXID")
    }

    /// The same of FETCH and a message's id.
    pub(in crate::mail) fn message_ids(self) -> Option<&'static str> {
        self.ids("EMAILID")
    }

    /// `of_object_id` is what `OBJECTID` calls the id.
    fn ids(self, of_object_id: &'static str) -> Option<&'static str> {
        if self.guid {
            Some("X-GUID")
        } else {
            self.object_id.then_some(of_object_id)
        }
    }

    /// Those that a CAPABILITY reply or response code names.
    pub(in crate::mail) fn of(named: &[Capability<'_>]) -> Self {
        let mut all = Self::default();
        for capability in named {
            match capability {
                Capability::Imap4rev1 => {}
                Capability::Auth(mechanism) => {
                    all.auth_plain |= mechanism.eq_ignore_ascii_case("PLAIN");
                    all.auth_oauthbearer |= Mechanism::OAuthBearer.is(mechanism);
                    all.auth_xoauth2 |= Mechanism::XOAuth2.is(mechanism);
                }
                Capability::Atom(name) => match name.to_ascii_uppercase().as_str() {
                    "SASL-IR" => all.sasl_ir = true,
                    "LOGINDISABLED" => all.login_disabled = true,
                    "LIST-EXTENDED" => all.list_extended = true,
                    "LIST-STATUS" => all.list_status = true,
                    "SPECIAL-USE" => all.special_use = true,
                    "LITERAL+" => all.literal_plus = true,
                    "MOVE" => all.r#move = true,
                    "OBJECTID" => all.object_id = true,
                    "UNSELECT" => all.unselect = true,
                    "UIDPLUS" => all.uid_plus = true,
                    _ => {}
                },
            }
        }
        all
    }
}
