//! Reads what a server reports before the log-in: its capabilities and its name (RFC 2971). Does
//! not log in.

use imap_proto::{Capability, Response};

use super::Error;
use super::capabilities::Capabilities;
use super::client::Connector;
use super::wire::OnReply;

/// What a server reports before the log-in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// The name of the server program, or `None` if the server does not report a name before the
    /// log-in.
    pub name: Option<String>,
    /// The extensions before the log-in. Many servers list further extensions after the log-in.
    pub capabilities: Capabilities,
}

impl Connector {
    /// Connects, and reads the greeting, the capabilities and the name of the server.
    ///
    /// # Errors
    /// Returns [`Error::Unavailable`] if the server is unreachable or sends an invalid reply.
    pub async fn probe(&self) -> Result<Probe, Error> {
        self.within(async {
            let (mut wire, _) = self.greet().await?;
            let mut probe = Probe::default();
            let mut has_id = false;
            let on: OnReply<'_> = &mut |reply, _| {
                if let Response::Capabilities(named) = reply {
                    probe.capabilities = Capabilities::of(named);
                    has_id = named.iter().any(is_id);
                }
                Ok(())
            };
            let tag = wire.queue("CAPABILITY");
            wire.finish_one(tag, on).await?.ok()?;
            if has_id {
                let on: OnReply<'_> = &mut |reply, _| {
                    if let Response::Id(Some(fields)) = reply {
                        probe.name = fields.get("name").map(ToString::to_string);
                    }
                    Ok(())
                };
                let tag = wire.queue("ID NIL");
                wire.finish_one(tag, on).await?.ok()?;
            }
            wire.queue("LOGOUT");
            wire.flush().await?;
            Ok(probe)
        })
        .await
    }
}

fn is_id(capability: &Capability<'_>) -> bool {
    matches!(capability, Capability::Atom(name) if name.eq_ignore_ascii_case("ID"))
}
