"""The model repository: which models there are on disk, what their settings say, and which of them are served.

- Models lie in a folder (`folder`), at places that are named one by one (`named_models`), or where OpenVINO Model
  Server's file says (`model_server_config`, `model_server_fields`). Each of these `looks` there, and gives a `listing`
  of `entries`, one for each version to serve.
- An entry reads its `model_settings`: those of its own file, which lie over Triton's (`triton_config`) and below what a
  load brings, as `setting_layers`. `setting_readers` has each setting with how it is read, on `setting_values`; what is
  said of inputs, batches and labels is read in `preprocessing_settings`, `batch_settings` and `label_file`.
- The `loader` decides which versions are loaded, reloaded and unloaded, `version_loads` opens them, and the
  `catalogue` knows what has become of each.
"""
