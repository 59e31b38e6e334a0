//! Converts errors of the host to error responses of the team routes.

use latchmail_sdk::capability::{Caller, Missing, Refused};
use latchmail_sdk::{Code, Failure, codes};

pub(crate) const NO_TEAM: (Code, &str) = (codes::TEAM_NOT_FOUND, "Team not found");

pub(crate) fn failure_of(refused: Refused, host: &impl Caller) -> Failure {
    match refused {
        Refused::Missing(missing) => {
            let (code, text) = match missing {
                Missing::Team => NO_TEAM,
                Missing::User => (codes::USER_NOT_FOUND, "There is no such user"),
                Missing::Member => (codes::MEMBER_NOT_FOUND, "There is no such member"),
                Missing::Grant => (codes::GRANT_NOT_FOUND, "There is no such grant"),
                Missing::Folder => (codes::FOLDER_NOT_FOUND, "Folder not found"),
                Missing::Alias => (codes::ALIAS_NOT_FOUND, "There is no such alias"),
            };
            Failure::not_found(code, text)
        }
        Refused::Failed(error) => Failure::of(error, NO_TEAM, host),
    }
}
