"""What a server uses of its machine: files and folders, memory that callers share, and what the process may take.

- Files: `api_key_file`, uploaded `blobs` in their `blob_folder`, the process's `own_folder`, and which `mounts` they
  lie on; `watch` tells of changes, and `follow` renews what is served after them.
- Memory of others: `lent_memory` of SDK clients, `shared_segments` that callers register.
- Limits: `machine` and `control_groups` (CPU and memory), `open_files`, and the allocator (`malloc`).
"""
