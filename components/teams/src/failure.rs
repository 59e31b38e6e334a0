//! Converts errors of the host to error responses of the team routes.

use latchmail_sdk::Failure;
use latchmail_sdk::capability::{Caller, Missing, Refused};

pub(crate) const NO_TEAM: &str = "Team not found";

pub(crate) fn failure_of(refused: Refused, host: &impl Caller) -> Failure {
    match refused {
        Refused::Missing(missing) => Failure::not_found(match missing {
            Missing::Team => NO_TEAM,
            Missing::User => "There is no such user",
            Missing::Member => "There is no such member",
            Missing::Grant => "There is no such grant",
            Missing::Folder => "Folder not found",
            Missing::Alias => "There is no such alias",
        }),
        Refused::Failed(error) => Failure::of(error, NO_TEAM, host),
    }
}
