//! DELETE `/api/v1/teams/{id}/members/{userId}`: removes a member, or leaves a team.

use latchmail_sdk::capability::{Caller, Teams};
use latchmail_sdk::{Failure, Reply, Request};

use crate::failure::failure_of;

/// Remove a member
///
/// Removes the member and all its grants. A guest can always remove itself. Removing the last guest
/// also revokes the standing key, which is the app password with which guests access the mailbox.
#[utoipa::path(
    delete,
    path = "/api/v1/teams/{id}/members/{userId}",
    operation_id = "removeMember",
    tag = "Teams",
    params(
        ("id" = String, Path, description = "The team"),
        ("userId" = String, Path, description = "The member")
    ),
    responses(
        (status = 200, description = "The member was removed", body = latchmail_sdk::Succeeded),
        (status = 403, description = "`You may not manage the members of this mailbox`, or the member is the owner", body = latchmail_sdk::Failed),
        (status = 404, description = "`Team not found`, `There is no such member`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn remove_member(
    host: &(impl Teams + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    host.remove_member(request.path("id"), request.path("userId"))
        .map_err(|refused| failure_of(refused, host))?;
    Reply::success()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::with_bob;

    const TEAM: &str = "/api/v1/teams/ada@example.test/members";

    #[test]
    fn a_member_can_be_removed_and_can_leave() {
        let service = with_bob(&["mail:read"]);
        let bob = format!("{TEAM}/bob@example.test");
        assert_eq!(
            service.delete(&bob).succeeds(200),
            json!({ "success": true })
        );
        service.delete(&bob).fails(404, "There is no such member");
        let service = with_bob(&["mail:read"]);
        service.host.sign_in("bob@example.test");
        let owner = service.delete(&format!("{TEAM}/ada@example.test"));
        owner.fails(403, "You may not manage the members of this mailbox");
        service.delete(&bob).succeeds(200);
        service.get(TEAM).fails(404, "Team not found");
    }

    #[test]
    fn the_owner_cannot_be_removed() {
        let service = with_bob(&["members:manage"]);
        for name in ["ada@example.test", "bob@example.test"] {
            service.host.sign_in(name);
            let refused = service.delete(&format!("{TEAM}/ada@example.test"));
            refused.fails(
                403,
                "The mailbox's owner can be neither removed nor granted anything",
            );
        }
    }
}
