"""Operations of the layers and objectives, on any backend of Keras."""
