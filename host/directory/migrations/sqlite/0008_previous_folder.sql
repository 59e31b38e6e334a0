-- The id of the folder that contained the message before its last move. NULL if the message was never moved, or only by programs before this migration.
ALTER TABLE messages ADD COLUMN previous_folder_id TEXT;
