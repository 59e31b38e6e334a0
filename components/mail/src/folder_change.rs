//! POST `/api/v1/mail/folders`, PATCH and DELETE `/api/v1/mail/folders/{folder}`: create, rename
//! and delete a folder.

use latchmail_common::Folder;
use latchmail_common::folders::{self, bad_path};
use latchmail_sdk::capability::{Caller, Mailbox};
use latchmail_sdk::{Failure, Reply, Request};
use serde::Deserialize;
use utoipa::ToSchema;

/// The path of a folder.
#[derive(Deserialize, ToSchema)]
pub(crate) struct FolderPath {
    /// The full path, with the `delimiter` of the mail server between its segments.
    #[schema(min_length = 1, max_length = 2000)]
    path: String,
}

/// What happens to the messages of a deleted folder.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "used only for the API description")]
enum DeletedMessages {
    /// The messages are moved to the folder with the role `\Trash`.
    Trash,
    /// The messages are deleted permanently.
    Delete,
}

/// Create a folder
///
/// Creates the folder and its missing parents, and subscribes to them. A member of a shared mailbox
/// needs the right `mail:write` on the whole mailbox.
#[utoipa::path(
    post,
    path = "/api/v1/mail/folders",
    operation_id = "createFolder",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    request_body = FolderPath,
    responses(
        (
            status = 201,
            description = "The folder",
            body = Folder,
            links(
                ("renameFolder" = (operation_id = "renameFolder", parameters(("folder" = "$response.body#/path")))),
                ("deleteFolder" = (operation_id = "deleteFolder", parameters(("folder" = "$response.body#/path"))))
            )
        ),
        (status = 400, description = "`Invalid folder path`, also if the mail server refuses the path", body = latchmail_sdk::Failed),
        (status = 409, description = "`Folder already exists`", body = latchmail_sdk::Failed),
        (status = 413, description = "The mailbox has the maximum number of folders", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn create_folder(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let folder = folders::create(host, &path(request)?)?;
    Reply::with_status(201, &folder)
}

/// Rename a folder
///
/// Renames the folder with its subfolders, or moves it to another parent. Missing parents are
/// created. The folders keep their `id`, and their messages keep their `uid`. A renamed folder
/// stays subscribed. A member of a shared mailbox needs the rights `mail:read` and `mail:write` on
/// the whole mailbox.
#[utoipa::path(
    patch,
    path = "/api/v1/mail/folders/{folder}",
    operation_id = "renameFolder",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(("folder" = String, Path, description = "The folder's path, URL-encoded")),
    request_body = FolderPath,
    responses(
        (status = 200, description = "The folder with its new path", body = Folder),
        (status = 400, description = "`Invalid folder path`, also if the mail server refuses the path", body = latchmail_sdk::Failed),
        (status = 404, description = "`Folder not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "`Folder already exists`, or `This folder has a role and cannot be changed`: the folder is INBOX, or it or a subfolder has a role", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn rename_folder(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    let folder = folders::rename(host, request.path("folder"), &path(request)?)?;
    Reply::json(&folder)
}

/// Delete a folder
///
/// Deletes a folder without subfolders. Without `messages`, the folder must be empty. A member of a
/// shared mailbox needs the rights `mail:read` and `mail:write` on the whole mailbox.
#[utoipa::path(
    delete,
    path = "/api/v1/mail/folders/{folder}",
    operation_id = "deleteFolder",
    tag = "Mail",
    extensions(("x-latchmail" = json!(true))),
    params(
        ("folder" = String, Path, description = "The folder's path, URL-encoded"),
        ("messages" = inline(Option<DeletedMessages>), Query, description = "What happens to the messages of the folder: `trash` moves them to the folder with the role `\\Trash`, where they keep their `uid`; `delete` deletes them permanently")
    ),
    responses(
        (status = 200, description = "Done", body = latchmail_sdk::Succeeded),
        (status = 400, description = "`Invalid messages parameter`", body = latchmail_sdk::Failed),
        (status = 404, description = "`Folder not found`", body = latchmail_sdk::Failed),
        (status = 409, description = "`Folder is not empty`, `Folder has subfolders`, `There is no Trash folder`, or `This folder has a role and cannot be changed`", body = latchmail_sdk::Failed)
    )
)]
pub(crate) fn delete_folder(
    host: &(impl Mailbox + Caller),
    request: &Request,
) -> Result<Reply, Failure> {
    folders::delete(host, request.path("folder"), request.query("messages"))?;
    Reply::success()
}

/// Returns the path in the request's body.
fn path(request: &Request) -> Result<String, Failure> {
    let body: Result<FolderPath, Failure> = request.json();
    body.map(|body| body.path).map_err(|_| bad_path())
}

#[cfg(test)]
mod tests {
    use latchmail_sdk::codes;
    use latchmail_sdk::testing::{FakeHost, Letter, json, request};
    use serde_json::json;

    use super::*;

    fn create(host: &FakeHost, path: &str) -> Result<Reply, Failure> {
        let body = json!({ "path": path }).to_string();
        create_folder(host, &request(&[], &[], &body))
    }

    fn rename(host: &FakeHost, folder: &str, path: &str) -> Result<Reply, Failure> {
        let body = json!({ "path": path }).to_string();
        rename_folder(host, &request(&[("folder", folder)], &[], &body))
    }

    fn delete(host: &FakeHost, folder: &str, query: &[(&str, &str)]) -> Result<Reply, Failure> {
        delete_folder(host, &request(&[("folder", folder)], query, ""))
    }

    #[test]
    fn a_folder_is_created_renamed_and_deleted() {
        let host = FakeHost::new();
        let created = create(&host, "Work/Reports").unwrap();
        assert_eq!(created.status, 201);
        let created = json(Ok(created));
        assert_eq!(created["path"], "Work/Reports");
        assert_eq!(created["name"], "Reports");
        let renamed = json(rename(&host, "Work", "Play"));
        assert_eq!(renamed["path"], "Play");
        assert_eq!(renamed["id"], "id of Work");
        let success = json!({ "success": true });
        assert_eq!(json(delete(&host, "Play/Reports", &[])), success);
        let gone = delete(&host, "Play/Reports", &[]).unwrap_err();
        assert_eq!(gone.text, "Folder not found");
    }

    #[test]
    fn a_folder_with_messages_is_deleted_only_on_request() {
        let host = FakeHost::new();
        let uid = host.file("Work", Letter::from("grace@example.org"));
        let refused = delete(&host, "Work", &[]).unwrap_err();
        assert_eq!(refused.text, "Folder is not empty");
        delete(&host, "Work", &[("messages", "trash")]).unwrap();
        assert_eq!(host.get_message(uid).unwrap().summary.uid, uid);
        let uid = host.file("Play", Letter::from("grace@example.org"));
        delete(&host, "Play", &[("messages", "delete")]).unwrap();
        assert!(host.get_message(uid).is_err());
    }

    #[test]
    fn a_folder_with_a_role_or_with_subfolders_is_not_changed() {
        let host = FakeHost::new();
        host.file("Work/Reports", Letter::from("grace@example.org"));
        host.file("Work", Letter::from("grace@example.org"));
        let role = "This folder has a role and cannot be changed";
        let role = Failure::conflict(codes::FOLDER_HAS_ROLE, role);
        assert_eq!(rename(&host, "inbox", "a").unwrap_err(), role);
        assert_eq!(delete(&host, "Trash", &[]).unwrap_err(), role);
        let nested = delete(&host, "Work", &[("messages", "delete")]).unwrap_err();
        assert_eq!(nested.text, "Folder has subfolders");
        let exists = Failure::conflict(codes::FOLDER_EXISTS, "Folder already exists");
        assert_eq!(create(&host, "Work").unwrap_err(), exists);
        assert_eq!(rename(&host, "Work", "Sent").unwrap_err(), exists);
    }

    #[test]
    fn an_invalid_path_or_parameter_is_refused() {
        let host = FakeHost::new();
        for body in [
            "",
            "{}",
            "[]",
            r#"{"path": ""}"#,
            r#"{"path": 1}"#,
            r#"{"path": null}"#,
        ] {
            let refused = create_folder(&host, &request(&[], &[], body)).unwrap_err();
            assert_eq!(refused, bad_path(), "{body}");
        }
        let refused = delete(&host, "INBOX", &[("messages", "keep")]).unwrap_err();
        assert_eq!(refused.text, "Invalid messages parameter");
        assert_eq!(host.calls(), 0);
        for path in ["/", "a//b", "a/../b", "a\nb"] {
            assert_eq!(create(&host, path).unwrap_err(), bad_path(), "{path:?}");
        }
    }
}
