//! The IMAP extensions that this client uses, and whether the server offers these extensions.

use imap_proto::{Capability, ResponseCode};
use latchmail_net::sasl::Mechanism;

/// The extensions that the server offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each field is an independent extension"
)]
pub struct Capabilities {
    /// `AUTH=PLAIN` (RFC 4616).
    pub auth_plain: bool,
    /// `AUTH=OAUTHBEARER` (RFC 7628).
    pub auth_oauthbearer: bool,
    /// `AUTH=XOAUTH2`, the predecessor of OAUTHBEARER.
    pub auth_xoauth2: bool,
    /// `SASL-IR`: AUTHENTICATE can include the initial response (RFC 4959).
    pub sasl_ir: bool,
    /// `LOGINDISABLED`: LOGIN must not be used (RFC 3501, section 6.2.3).
    pub login_disabled: bool,
    /// `LIST-EXTENDED`: LIST accepts RETURN options (RFC 5258).
    pub list_extended: bool,
    /// `LIST-STATUS`: LIST can return STATUS data (RFC 5819).
    pub list_status: bool,
    /// `SPECIAL-USE`: folders have roles (RFC 6154).
    pub special_use: bool,
    /// `LITERAL+`: the client can send literals of any length without waiting for the server (RFC
    /// 7888).
    pub literal_plus: bool,
    /// `MOVE` (RFC 6851).
    pub r#move: bool,
    /// `OBJECTID`: folders and messages have ids (RFC 8474).
    pub object_id: bool,
    /// Dovecot's `X-GUID`: ids of folders and messages. CAPABILITY does not list `X-GUID`, so the
    /// client tests for `X-GUID` at log-in.
    pub guid: bool,
    /// `UNSELECT` (RFC 3691).
    pub unselect: bool,
    /// `UIDPLUS`: EXPUNGE can be limited to some UIDs, and COPY, MOVE and APPEND return new UIDs
    /// (RFC 4315).
    pub uid_plus: bool,
    /// `CONDSTORE`: messages have a MODSEQ, which changes with their flags, and STORE can depend on
    /// the MODSEQ (RFC 7162).
    pub condstore: bool,
    /// `QRESYNC`: the server reports the changes of a folder since an earlier state (RFC 7162).
    /// QRESYNC includes CONDSTORE and ENABLE.
    pub qresync: bool,
    /// `IDLE`: the server reports changes of the open folder (RFC 2177).
    pub idle: bool,
    /// `NOTIFY`: the server reports changes of all folders (RFC 5465).
    pub notify: bool,
    /// `QUOTA`: GETQUOTAROOT returns the quota of a mailbox (RFC 9208, RFC 2087).
    pub quota: bool,
}

impl Capabilities {
    /// Returns the required extensions that the server does not offer. Each item contains the name
    /// of an extension and the consequence for users. The caller must log in first, because some
    /// servers list extensions only after the log-in.
    pub fn missing_extensions(self) -> impl Iterator<Item = (&'static str, &'static str)> {
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
        .filter(|(offered, ..)| !offered)
        .map(|(_, extension, effect)| (extension, effect))
    }

    /// Returns the STATUS item for folder ids, if the server has ids. Prefers `X-GUID`. Therefore
    /// ids do not change when a new Dovecot version adds `OBJECTID`.
    #[must_use]
    pub fn folder_ids(self) -> Option<&'static str> {
        self.ids("MAILBOXID")
    }

    /// Returns the FETCH item for message ids, if the server has ids.
    #[must_use]
    pub fn message_ids(self) -> Option<&'static str> {
        self.ids("EMAILID")
    }

    /// Returns the name of the STATUS or FETCH item for ids. Returns `None` if the server has no
    /// ids. `of_object_id` is the name that the extension `OBJECTID` defines for the item.
    fn ids(self, of_object_id: &'static str) -> Option<&'static str> {
        if self.guid {
            Some("X-GUID")
        } else {
            self.object_id.then_some(of_object_id)
        }
    }

    /// Collects the extensions in a CAPABILITY response or response code.
    #[must_use]
    pub fn of(named: &[Capability<'_>]) -> Self {
        let mut all = Self::default();
        for capability in named {
            match capability {
                Capability::Imap4rev1 => {}
                Capability::Auth(mechanism) => {
                    all.auth_plain |= mechanism.eq_ignore_ascii_case("PLAIN");
                    all.auth_oauthbearer |= Mechanism::OAuthBearer.has_name(mechanism);
                    all.auth_xoauth2 |= Mechanism::XOAuth2.has_name(mechanism);
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
                    "CONDSTORE" => all.condstore = true,
                    "QRESYNC" => (all.condstore, all.qresync) = (true, true),
                    "IDLE" => all.idle = true,
                    "NOTIFY" => all.notify = true,
                    "QUOTA" => all.quota = true,
                    _ => {}
                },
            }
        }
        all
    }

    /// Returns the extensions in a response code. Returns `None` if the code is not CAPABILITY.
    #[must_use]
    pub fn in_code(code: Option<&ResponseCode<'_>>) -> Option<Self> {
        match code {
            Some(ResponseCode::Capabilities(named)) => Some(Self::of(named)),
            _ => None,
        }
    }
}
